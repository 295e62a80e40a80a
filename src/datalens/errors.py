"""The one error users are meant to read."""


class DataLensError(ValueError):
    """Something the caller can put right.

    Its message is one sentence that names the thing and says what would work. The command
    line prints it and exits with 2. Bad input is found before anything is written or spent.
    """


def sentence(error: BaseException) -> str:
    """What to say of an error; one that is nobody's to put right is named."""
    if isinstance(error, DataLensError):
        return str(error)
    if isinstance(error, OSError | MemoryError):  # a full disk, a folder gone, too much asked
        return f"the system refused: {str(error) or 'not enough memory'}"
    return f"broke down ({type(error).__name__}: {error})"
