"""Signatures of certificates, for readers who are not shown the ledger.

The hash in a certificate's ledger entry covers everything that a run publishes, but whoever has
the folder could compute all hashes anew. The owner's signature cannot be computed anew.
"""

import base64
import os
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from datalens.errors import DataLensError

SIGNATURE = "certificate.sig"
"""Beside certificate.json: the Ed25519 signature of its bytes, in base64."""
LONGEST_SIGNATURE = 200
"""Bytes of that file."""
KEY = "signing-key"
"""The owner's secret key, 32 bytes, beside the ledgers; then the public key, 32 bytes, without
which a damaged key would sign as another owner's."""


def signed(content: bytes, folder: Path) -> str:
    """The signature by the key in this folder, which is made on first use, as a line of text."""
    return f"{base64.b64encode(_secret_key(folder).sign(content)).decode()}\n"


def public_key(folder: Path) -> str:
    """What others check signatures with: publish it where you cannot be mistaken for another."""
    return base64.b64encode(_secret_key(folder).public_key().public_bytes_raw()).decode()


def is_signed(content: bytes, signature: str, key: str) -> bool:
    """Whether the owner of this public key has signed these bytes."""
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key, validate=True))
    except ValueError:
        raise DataLensError(
            f"--key takes a public key as datalens ledger prints it, got {key!r:.60}."
        ) from None
    try:
        public.verify(base64.b64decode(signature.strip(), validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _secret_key(folder: Path) -> Ed25519PrivateKey:
    path = folder / KEY
    try:
        if not path.exists():
            _make_key(path)
        content = path.read_bytes()
        key = Ed25519PrivateKey.from_private_bytes(content[:32])
        if content[32:] != key.public_key().public_bytes_raw():
            raise ValueError("it is damaged")
    except (OSError, ValueError) as error:
        raise DataLensError(
            f"The signing key {path} cannot be used ({error}); put it back from a backup, or move"
            " it away for a new one, whose public key readers then need."
        ) from None
    return key


def _make_key(path: Path) -> None:
    """Whole or not at all, readable by its owner alone, and never in the place of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    descriptor, part = mkstemp(prefix=f".{KEY}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.private_bytes_raw() + key.public_key().public_bytes_raw())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        Path(part).unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
