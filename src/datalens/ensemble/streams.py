"""Random streams that belong to teachers: a seed is a hash of a secret and of what it is for."""

from hashlib import blake2b

import torch

from datalens.errors import DataLensError

SEED_BITS = 63
"""A torch generator takes a seed that fits a signed 64-bit integer."""


def derive(secret: bytes, *labels: str | int) -> int:
    """A seed in [0, 2**63) for the purpose that ``labels`` spell out.

    Different labels give independent seeds: every label is hashed with its kind and its length,
    so ("ab", "c"), ("a", "bc") and ("a", "b", "c") differ, and so do 1 and "1".
    """
    digest = blake2b(digest_size=8)
    for part in (secret, *labels):
        kind, encoded = _encode(part)
        digest.update(kind + len(encoded).to_bytes(8, "big") + encoded)
    return int.from_bytes(digest.digest(), "big") >> (64 - SEED_BITS)


def stream(secret: bytes, *labels: str | int) -> torch.Generator:
    """A generator on the CPU that starts at ``derive(secret, *labels)``.

    **Guarantee**: stateless. Who asks, when, in which block or on which machine changes nothing,
    so a stream that has the teacher's number among its labels depends on no other teacher. (The
    CPU generator keeps 32 bits of its seed, so two streams may be alike by chance. No guarantee
    rests on their being different: none of them ever sees a record, and noise is drawn elsewhere.)
    """
    return torch.Generator().manual_seed(derive(secret, *labels))


def _encode(part: bytes | str | int) -> tuple[bytes, bytes]:
    match part:
        case bytes():
            return b"b", part
        case str():
            return b"s", part.encode()
        case int():
            return b"i", str(int(part)).encode()
    raise DataLensError(f"a stream's labels are strings and integers, got {part!r}.")
