"""The owner's key: made once, for the owner alone, and never taken for another when damaged."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from datalens import DataLensError
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.signing import KEY, is_signed, public_key, signed
from datalens.synthesizers.class_gaussian import ClassGaussian


def test_a_signature_is_over_these_bytes_by_this_key(tmp_path: Path) -> None:
    key, other = public_key(tmp_path / "one"), public_key(tmp_path / "other")
    signature = signed(b"certificate", tmp_path / "one")
    assert is_signed(b"certificate", signature, key)
    assert not is_signed(b"Certificate", signature, key)
    assert not is_signed(b"certificate", signature, other)
    for refused in ("AAAA", "", "\u0430" * 44, key[:-1]):
        with pytest.raises(DataLensError, match="--key takes a public key"):
            is_signed(b"certificate", signature, refused)


def test_the_key_is_for_its_owner_alone_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    key = public_key(tmp_path)
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY]
    assert (tmp_path / KEY).read_bytes()[32:] == base64.b64decode(key)


def test_many_who_make_it_at_once_have_one_key(tmp_path: Path) -> None:
    """Threads of one process, too: each makes a file of its own, and the first is kept."""
    for attempt in range(50):
        folder = tmp_path / str(attempt)
        with ThreadPoolExecutor(8) as threads:
            keys = set(threads.map(public_key, [folder] * 8))
        assert keys == {public_key(folder)}


@pytest.mark.parametrize("damage", ["a bit", "cut", "empty", "longer", "a folder"])
def test_a_damaged_key_is_refused_before_anything_is_spent(damage: str, own_home: Path) -> None:
    folder = ledger_path("mine").parent
    public_key(folder)
    content = bytearray((folder / KEY).read_bytes())
    (folder / KEY).unlink()
    if damage == "a folder":
        (folder / KEY).mkdir()
    else:
        content[5] ^= damage == "a bit"
        kept = {"cut": content[:32], "empty": b"", "longer": content + b"\n"}.get(damage, content)
        (folder / KEY).write_bytes(kept)
    images = np.zeros((20, 1, 8, 8), dtype=np.uint8)
    with pytest.raises(DataLensError, match=r"signing key .* cannot be used .* from a backup"):
        ClassGaussian(epsilon=1.0).fit(images, np.arange(20) % 2, n_classes=2, ledger="mine")
    assert Ledger(ledger_path("mine")).rows() == []
