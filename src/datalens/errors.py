"""The one error users are meant to read."""


class DataLensError(ValueError):
    """Something the caller can put right.

    Its message is one sentence that names the thing and says what would work. The command
    line prints it and exits with 2. Bad input is found before anything is written or spent.
    """


LONGEST = 120
"""Characters of another library's message, which may repeat what is in a file."""


def sentence(error: BaseException) -> str:
    """What to say of an error; one that is nobody's to put right is named."""
    if isinstance(error, DataLensError):
        return printable(str(error))
    if isinstance(error, OSError | MemoryError):  # a full disk, a folder gone, too much asked
        return f"the system refused: {str(error) or 'not enough memory'}"
    return f"broke down ({type(error).__name__}: {error})"


def brief(error: BaseException) -> str:
    """Another library's error in a few printable words, to stand in brackets."""
    text = printable(str(error)).strip(" .")
    return f"{text[:LONGEST]}..." if len(text) > LONGEST else text or type(error).__name__


def printable(text: str) -> str:
    """On one line, without what would move a terminal's cursor: names of files may hold both."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
