"""The public rotation: an orthogonal matrix, the same for everybody."""

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard as matrix

from datalens.mechanism.rotation import hadamard, padded, rotate, rotate_back


def test_padding_is_to_the_next_power_of_two() -> None:
    assert [padded(n) for n in (1, 2, 3, 4, 5, 784, 1024, 12288)] == [
        1, 2, 4, 4, 8, 1024, 1024, 16384,
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_the_fast_transform_is_the_matrix(size: int) -> None:
    values = torch.randn(3, size, generator=torch.Generator().manual_seed(0)).double()
    slow = values.numpy() @ matrix(size) / np.sqrt(size)
    assert np.allclose(hadamard(values).numpy(), slow, atol=1e-12)


@pytest.mark.parametrize("n_values", [1, 6, 64, 784])
def test_lengths_stay_and_the_way_back_leads_back(n_values: int) -> None:
    values = torch.randn(5, n_values, generator=torch.Generator().manual_seed(1)).double()
    turned = rotate(values)
    assert turned.shape == (5, padded(n_values))
    assert torch.allclose(turned.norm(dim=-1), values.norm(dim=-1))
    assert torch.allclose(rotate_back(turned, n_values), values)
    if n_values > 1:  # the control: it does something
        assert not torch.allclose(turned[:, :n_values], values, atol=0.1)


def test_one_entry_is_spread_evenly_and_many_are_about_normal() -> None:
    """What rotating is for: no entry is much larger than the others."""
    one = torch.zeros(784)
    one[5] = 1.0
    assert torch.allclose(rotate(one).abs(), torch.full((1024,), 1 / 32))
    flat = rotate(torch.ones(784))
    assert flat.abs().max() < 5 * flat.norm() / 32
    unsigned = hadamard(torch.nn.functional.pad(torch.ones(784), (0, 240)))  # without the signs
    assert unsigned.abs().max() > 5 * unsigned.norm() / 32
