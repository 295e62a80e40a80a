"""What datalens takes on: bounds that a file's header is held to before its content is read."""

MIN_SIDE = 8
MAX_SIDE = 64
"""Height and width of an image, in pixels."""

CHANNELS = (1, 3)
"""Grey or RGB."""

MAX_PIXELS = 2**26
"""Of one picture before it is brought to size: a photograph of 67 megapixels."""

MAX_PACKED = 2**26
"""Bytes of one picture as it is stored in an archive or a table."""

MAX_CLASSES = 1_000
MAX_NAME = 255
"""Characters of a class name, as in the name of a folder."""

MAX_BYTES = 4 * 2**30
"""Most that one array may take in memory: a small file can claim to hold any amount."""

MAX_RECORDS = MAX_BYTES // MIN_SIDE**2
"""As many as fit into one array."""
