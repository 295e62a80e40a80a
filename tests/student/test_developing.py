"""Developing: black and white are exact, and what is between comes back."""

import torch

from datalens.student.developing import developed, negative


def test_images_come_back_from_their_negatives() -> None:
    images = torch.linspace(0, 1, 11)
    assert torch.allclose(developed(negative(images)), images, atol=1e-6)
    assert negative(images).min() > 0.04 and negative(images).max() < 0.96


def test_what_is_painted_near_the_edges_is_black_or_white() -> None:
    assert developed(torch.tensor([0.001, 0.05, 0.95, 0.999])).tolist() == [0, 0, 1, 1]
    assert 0 < developed(torch.tensor(0.06)).item() < 0.02
