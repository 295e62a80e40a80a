"""One run, however it is divided: the generator is the same, bit for bit."""

from pathlib import Path

import pytest

from .processes import Processes

SMALL = ["--epsilon", 3, "--steps", 3, "--batch-size", 4, "--set", "label_steps=2"]
SMALL += ["--label-prior", "bought", "--seed", 1, "--not-private"]
COMPACT = [*SMALL, "--teachers", 9, "--set", "block_size=2"]
REFERENCE = [*SMALL, "--teachers", 4, "--set", "block_size=2", "--discriminator", "reference"]


def fitted(size: int, folder: Path, *words: object, threads: int = 1) -> bytes:
    out = folder / f"run-{size}"
    ranks = Processes(
        size,
        folder / f"of-{size}",
        lambda rank: ["fit", *words, "--out", out],
        lambda rank: {"OMP_NUM_THREADS": str(threads)},
    )
    assert ranks.codes() == [0] * size, ranks.sentences()
    for rank in range(1, size):
        assert not ranks.err(rank) and not ranks.out(rank)
    return (out / "generator.safetensors").read_bytes()


def test_one_two_and_four_ranks(tmp_path: Path) -> None:
    """With 1,400 records and 9 teachers five records are left over; sums and counts have them."""
    one, two, four = (fitted(size, tmp_path, "digits", *COMPACT) for size in (1, 2, 4))
    assert one == two == four


@pytest.mark.parametrize("precision, threads", [("float32", 1), ("float32", 4), ("bfloat16", 2)])
def test_the_reference_discriminator(tmp_path: Path, precision: str, threads: int) -> None:
    words = ["digits", *REFERENCE, "--precision", precision]
    one, two = (fitted(size, tmp_path, *words, threads=threads) for size in (1, 2))
    assert one == two


@pytest.mark.parametrize("compressor", ["d2pfed", "fetchsgd"])
def test_other_compressors(tmp_path: Path, compressor: str) -> None:
    words = ["digits", *COMPACT, "--compressor", compressor]
    one, two = (fitted(size, tmp_path, *words) for size in (1, 2))
    assert one == two


def test_without_votes(tmp_path: Path) -> None:
    words = ["digits", "--epsilon", 3, "--set", "clusters=10", "--set", "label_steps=3"]
    words += ["--seed", 1, "--not-private"]
    one, three = (fitted(size, tmp_path, *words) for size in (1, 3))
    assert one == three


def test_class_gaussian(tmp_path: Path) -> None:
    words = ["digits", "--epsilon", 3, "--method", "class-gaussian", "--seed", 1, "--not-private"]
    one, three = (fitted(size, tmp_path, *words) for size in (1, 3))
    assert one == three


@pytest.mark.parametrize("size, most", [(3, 2), (6, 5)])
def test_more_ranks_than_blocks(tmp_path: Path, size: int, most: int) -> None:
    words = [*SMALL, "--teachers", 10, "--set", f"block_size={10 // most}", "--out", tmp_path / "r"]
    ranks = Processes(size, tmp_path / "of", lambda rank: ["fit", "digits", *words])
    assert ranks.codes() == [2] * size
    assert all(f"over {most} ranks at most, not {size}" in said for said in ranks.sentences())
    assert not (tmp_path / "r").exists()
