import pytest
import torch

from datalens.errors import DataLensError
from datalens.student import Generator


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 13, 9), (1, 28, 28), (3, 64, 64)])
def test_images_have_the_asked_shape_and_range(shape: tuple[int, int, int]) -> None:
    generator = Generator(shape, 5, 16, stream=seeded(0))
    labels = torch.arange(10) % 5
    images = generator(torch.randn(10, 16, generator=seeded(1)), labels)
    assert images.shape == (10, *shape)
    assert images.min() >= 0 and images.max() <= 1
    assert images.std() > 0.01


def test_weights_come_from_the_stream_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = (Generator((1, 8, 8), 2, 4, stream=seeded(s)) for s in (0, 0, 1))
    assert all(map(torch.equal, one.parameters(), same.parameters()))
    assert not torch.equal(one.dense, other.dense)
    assert torch.equal(before, torch.get_rng_state())


def test_an_image_depends_on_its_own_latent_and_class_alone() -> None:
    generator = Generator((1, 8, 8), 3, 4, stream=seeded(0))
    latents, labels = torch.randn(6, 4, generator=seeded(1)), torch.arange(6) % 3
    together = generator(latents, labels)
    alone = generator(latents[2:3], labels[2:3])
    torch.testing.assert_close(together[2:3], alone)
    assert not torch.allclose(alone, generator(latents[2:3], labels[:1]))


@pytest.mark.parametrize("shape", [(1, 7, 28), (1, 28, 65), (0, 28, 28), (28, 28)])
def test_other_sizes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataLensError, match="sides of 8 to 64"):
        Generator(shape, 10, stream=seeded(0))  # type: ignore[arg-type]
