"""Commands that we tell people to type next."""

import shlex


def command(*words: object) -> str:
    """`datalens` with these words, so that a shell takes each for one, whatever is in it."""
    return shlex.join(["datalens", *map(str, words)])
