"""Configuration, run folders and the command line."""
