"""The owner's signing key: made once, and for nobody else to read."""

import os
from pathlib import Path

from datalens.privacy.signing import KEY, is_signed, public_key, signed


def test_the_key_is_made_once_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    folder, before = tmp_path / "ledgers", os.umask(0)
    try:
        key = public_key(folder)
    finally:
        os.umask(before)
    assert [path.name for path in folder.iterdir()] == [KEY]
    assert (folder / KEY).stat().st_mode & 0o077 == 0
    assert is_signed(b"words", signed(b"words", folder), key) and public_key(folder) == key
    assert not is_signed(b"other words", signed(b"words", folder), key)
