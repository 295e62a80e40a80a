"""Signatures of certificates, for readers who are not shown the ledger.

The hash in a certificate's ledger entry covers everything that a run publishes, but whoever has
the folder could compute all hashes anew. The owner's signature cannot be computed anew.
"""

import base64
import os
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from datalens.errors import DataLensError

SIGNATURE = "certificate.sig"
"""Beside certificate.json: the Ed25519 signature of its bytes, in base64."""
LONGEST_SIGNATURE = 200
"""Bytes of that file."""
KEY = "signing-key"
"""The owner's secret key, 32 bytes, beside the ledgers."""


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
        return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataLensError(f"The signing key {path} cannot be used ({error}).") from None


def _make_key(path: Path) -> None:
    """Whole or not at all, and never in the place of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{KEY}.{os.getpid()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(Ed25519PrivateKey.generate().private_bytes_raw())
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(part, path)
    part.unlink()
