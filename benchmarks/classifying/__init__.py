"""The parts of benchmarks/classifiers.py: private classifiers set beside the paper's appendix A."""
