"""Benchmarks that come with the package: each prints one table."""
