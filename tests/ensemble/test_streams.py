"""Streams are stateless, and no two purposes share one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datalens.ensemble import derive, stream
from datalens.errors import DataLensError

labels = st.lists(st.text(max_size=4) | st.integers(), max_size=4).map(tuple)


@given(labels, labels)
def test_different_labels_give_different_seeds(a: tuple, b: tuple) -> None:
    assert (derive(b"secret", *a) == derive(b"secret", *b)) == (a == b)


@given(labels)
def test_a_seed_fits_a_generator(a: tuple) -> None:
    assert 0 <= derive(b"secret", *a) < 2**63


@pytest.mark.parametrize(
    "a, b", [(("ab", "c"), ("a", "bc")), ((1,), ("1",)), ((), ("",)), (("a", "b"), ("ab",))]
)
def test_labels_that_join_to_the_same_text_stay_apart(a: tuple, b: tuple) -> None:
    assert derive(b"secret", *a) != derive(b"secret", *b)


def test_the_secret_matters_and_is_not_a_label() -> None:
    assert derive(b"secret", "x") != derive(b"secreu", "x")
    assert derive(b"secret", "x") != derive(b"", "secret", "x")


def test_seeds_never_change() -> None:
    """A checkpoint made today must replay tomorrow."""
    assert derive(b"secret", "update", 3, 0, 1) == 1_303_818_327_927_601_542


def test_a_stream_starts_over_and_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    draws = [torch.rand(5, generator=stream(b"secret", "update", 7)) for _ in range(2)]
    assert torch.equal(*draws)
    assert torch.equal(before, torch.get_rng_state())


def test_a_label_of_another_kind_is_refused() -> None:
    with pytest.raises(DataLensError):
        derive(b"secret", 1.5)  # type: ignore[arg-type]
