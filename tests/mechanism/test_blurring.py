"""A blur by matrix products is the blur of two convolutions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.mechanism.blurring import blurred

CROOKED = torch.tensor([0.1, 0.2, 0.4, 0.25, 0.05], dtype=torch.float64)


def by_convolutions(planes: Tensor, lens: Tensor) -> Tensor:
    flat = planes.reshape(-1, 1, *planes.shape[-2:])
    flat = F.conv2d(flat, lens[None, None, :, None], padding="same")
    return F.conv2d(flat, lens[None, None, None], padding="same").view_as(planes)


@pytest.mark.parametrize("shape", [(2, 3, 9, 14), (1, 28, 28), (4, 8, 3)])
def test_it_equals_two_convolutions(shape: tuple[int, ...]) -> None:
    planes = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = blurred(planes, CROOKED)
    assert torch.allclose(found, by_convolutions(planes, CROOKED), atol=1e-12)
    assert not torch.allclose(found, by_convolutions(planes, CROOKED.flip(0)), atol=1e-3)


def test_a_lens_that_sees_one_place_changes_nothing() -> None:
    planes = torch.rand(2, 5, 7)
    assert torch.equal(blurred(planes, torch.ones(1)), planes)
