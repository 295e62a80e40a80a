"""The one error users are meant to read."""


class DataLensError(ValueError):
    """Something the caller can put right.

    Its message is one sentence that names the thing and says what would work. The command
    line prints it and exits with 2. Bad input is found before anything is written or spent.
    """
