"""Synthetic and real test data to figures."""
