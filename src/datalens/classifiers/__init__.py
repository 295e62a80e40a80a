"""The classifiers that judge synthetic data."""
