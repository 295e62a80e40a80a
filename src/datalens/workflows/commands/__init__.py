"""The commands of the command line, each a typed function. cli.py puts them together."""
