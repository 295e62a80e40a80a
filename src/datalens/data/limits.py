"""What datalens takes on: bounds that a file's header is held to before its content is read."""

MIN_SIDE = 8
MAX_SIDE = 64
"""Height and width of an image, in pixels."""

CHANNELS = (1, 3)
"""Grey or RGB."""

MAX_CLASSES = 1_000

MAX_BYTES = 4 * 2**30
"""Most that one array may take in memory: a small file can claim to hold any amount."""
