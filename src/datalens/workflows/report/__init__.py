"""Reports of runs: one that may be published, one that may not, and runs side by side."""
