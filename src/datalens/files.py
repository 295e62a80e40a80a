"""Files that are there whole or not at all."""

from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """The old content or the new, never a part of it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)  # os.replace: at one stroke
    finally:
        part.unlink(missing_ok=True)
