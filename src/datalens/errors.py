"""The one error, and the one warning, that users are meant to read."""


class DataLensError(ValueError):
    """Something the caller can put right.

    Its message is one sentence that names the thing and says what would work. The command
    line prints it and exits with 2. Bad input is found before anything is written or spent.
    """


class NotAdmitted(DataLensError):
    """The run was refused before anything of it was in the ledger: it can be started anew."""


class DataLensWarning(UserWarning):
    """A caution about a run that goes on: its budget, its records, its ledger.

    The command line prints it after "Careful:". `warnings.simplefilter("error", DataLensWarning)`
    makes it stop a run before anything is spent.
    """


LONGEST = 120
"""Characters of another library's message, which may repeat what is in a file."""


NO_MEMORY = "not enough memory"


def sentence(error: BaseException) -> str:
    """What to say of an error; one that is nobody's to put right is named."""
    if isinstance(error, DataLensError):
        return printable(str(error))
    if refused(error):
        said = str(error) if isinstance(error, OSError | MemoryError) else NO_MEMORY
        return f"the system refused: {said or NO_MEMORY}"
    return f"broke down ({type(error).__name__}: {error})"


def refused(error: BaseException) -> bool:
    """Whether the system did: a full disk, a folder gone, too much memory asked for.

    PyTorch says the last in errors of its own, which are known by their words.
    """
    if isinstance(error, OSError | MemoryError):
        return True
    words = (type(error).__name__, str(error))
    return isinstance(error, RuntimeError) and any(
        sign in word for sign in ("OutOfMemoryError", "DefaultCPUAllocator") for word in words
    )


def brief(error: BaseException) -> str:
    """Another library's error in a few printable words, to stand in brackets."""
    text = printable(str(error)).strip(" .")
    return f"{text[:LONGEST]}..." if len(text) > LONGEST else text or type(error).__name__


def printable(text: str) -> str:
    """On one line, without what would move a terminal's cursor: names of files may hold both."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
