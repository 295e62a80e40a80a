"""Inception-v3's make: every layer is used, and there are as many weights as are published."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from datalens.errors import DataLensError
from datalens.utility.inception import Inception

Layers = dict[str, tuple[int, int, int, int]]
Margin = int | tuple[int, int]


def block(name: str, **layers: tuple[int, int] | tuple[int, int, int, int]) -> Layers:
    """Layers as (outputs, inputs), of 1x1 kernels, or with the kernel's sides."""
    return {f"{name}.{n}": (*s, 1, 1) if len(s) == 2 else s for n, s in layers.items()}


def a(name: str, seen: int, pooled: int) -> Layers:
    return block(
        name,
        branch1x1=(64, seen),
        branch5x5_1=(48, seen),
        branch5x5_2=(64, 48, 5, 5),
        branch3x3dbl_1=(64, seen),
        branch3x3dbl_2=(96, 64, 3, 3),
        branch3x3dbl_3=(96, 96, 3, 3),
        branch_pool=(pooled, seen),
    )


def c(name: str, inner: int) -> Layers:
    return block(
        name,
        branch1x1=(192, 768),
        branch7x7_1=(inner, 768),
        branch7x7_2=(inner, inner, 1, 7),
        branch7x7_3=(192, inner, 7, 1),
        branch7x7dbl_1=(inner, 768),
        branch7x7dbl_2=(inner, inner, 7, 1),
        branch7x7dbl_3=(inner, inner, 1, 7),
        branch7x7dbl_4=(inner, inner, 7, 1),
        branch7x7dbl_5=(192, inner, 1, 7),
        branch_pool=(192, 768),
    )


def e(name: str, seen: int) -> Layers:
    return block(
        name,
        branch1x1=(320, seen),
        branch3x3_1=(384, seen),
        branch3x3_2a=(384, 384, 1, 3),
        branch3x3_2b=(384, 384, 3, 1),
        branch3x3dbl_1=(448, seen),
        branch3x3dbl_2=(384, 448, 3, 3),
        branch3x3dbl_3a=(384, 384, 1, 3),
        branch3x3dbl_3b=(384, 384, 3, 1),
        branch_pool=(192, seen),
    )


LAYERS: Layers = {
    "Conv2d_1a_3x3": (32, 3, 3, 3),
    "Conv2d_2a_3x3": (32, 32, 3, 3),
    "Conv2d_2b_3x3": (64, 32, 3, 3),
    "Conv2d_3b_1x1": (80, 64, 1, 1),
    "Conv2d_4a_3x3": (192, 80, 3, 3),
    **a("Mixed_5b", 192, 32),
    **a("Mixed_5c", 256, 64),
    **a("Mixed_5d", 288, 64),
    **block(
        "Mixed_6a",
        branch3x3=(384, 288, 3, 3),
        branch3x3dbl_1=(64, 288),
        branch3x3dbl_2=(96, 64, 3, 3),
        branch3x3dbl_3=(96, 96, 3, 3),
    ),
    **c("Mixed_6b", 128),
    **c("Mixed_6c", 160),
    **c("Mixed_6d", 160),
    **c("Mixed_6e", 192),
    **block(
        "Mixed_7a",
        branch3x3_1=(192, 768),
        branch3x3_2=(320, 192, 3, 3),
        branch7x7x3_1=(192, 768),
        branch7x7x3_2=(192, 192, 1, 7),
        branch7x7x3_3=(192, 192, 7, 1),
        branch7x7x3_4=(192, 192, 3, 3),
    ),
    **e("Mixed_7b", 1280),
    **e("Mixed_7c", 2048),
}


def weights(classes: int = 1000) -> dict[str, torch.Tensor]:
    chance = torch.Generator().manual_seed(0)
    found = {"fc.weight": torch.zeros(classes, 2048), "fc.bias": torch.zeros(classes)}
    for name, shape in LAYERS.items():
        spread = (2 / np.prod(shape[1:])) ** 0.5
        found[f"{name}.conv.weight"] = torch.randn(shape, generator=chance) * spread
        for part, fill in {"weight": 1, "bias": 0.1, "running_mean": 0, "running_var": 1}.items():
            found[f"{name}.bn.{part}"] = torch.full((shape[0],), float(fill))
    return found


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28)).astype(np.uint8)


def test_there_are_as_many_weights_as_are_published() -> None:
    """23,834,568 with 1,000 classes and without the auxiliary classifier."""
    counted = [w.numel() for name, w in weights().items() if "running" not in name]
    assert sum(counted) == 23_834_568


def test_every_layer_has_a_part_in_the_features(
    images: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, conv = set(), Inception._conv

    def noted(self: Inception, x: torch.Tensor, name: str, **more: object) -> torch.Tensor:
        used.add(name)
        return conv(self, x, name, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Inception, "_conv", noted)
    network, seen = Inception(weights()), []
    network.progress = lambda *done: seen.append(done)
    found = network.features(images[:1])
    assert seen == [(1, 1)]
    assert found.shape == (1, 2048) and np.isfinite(found).all()
    assert used == set(LAYERS)


def written_out(w: dict[str, torch.Tensor], images: np.ndarray, tensorflow: bool) -> np.ndarray:
    """The published network once more, layer by layer, with every stride and margin as a number."""
    counts = torch.ones(1, 1, 3, 3)

    def conv(x: torch.Tensor, name: str, stride: int = 1, margin: Margin = 0) -> torch.Tensor:
        x = F.conv2d(x, w[f"{name}.conv.weight"], None, stride, margin)
        mean, variance = w[f"{name}.bn.running_mean"], w[f"{name}.bn.running_var"]
        scale, shift = w[f"{name}.bn.weight"], w[f"{name}.bn.bias"]
        return F.batch_norm(x, mean, variance, scale, shift, False, 0.0, 1e-3).clamp(min=0)

    def averages(x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, 1, *x.shape[2:])
        inside = F.conv2d(torch.ones_like(flat), counts, padding=1) if tensorflow else 9.0
        return (F.conv2d(flat, counts, padding=1) / inside).reshape(x.shape)

    def a(x: torch.Tensor, n: str) -> torch.Tensor:
        five = conv(conv(x, f"{n}.branch5x5_1"), f"{n}.branch5x5_2", margin=2)
        three = conv(conv(x, f"{n}.branch3x3dbl_1"), f"{n}.branch3x3dbl_2", margin=1)
        three = conv(three, f"{n}.branch3x3dbl_3", margin=1)
        pooled = conv(averages(x), f"{n}.branch_pool")
        return torch.cat([conv(x, f"{n}.branch1x1"), five, three, pooled], 1)

    def c(x: torch.Tensor, n: str) -> torch.Tensor:
        once, twice = conv(x, f"{n}.branch7x7_1"), conv(x, f"{n}.branch7x7dbl_1")
        once = conv(once, f"{n}.branch7x7_2", margin=(0, 3))
        once = conv(once, f"{n}.branch7x7_3", margin=(3, 0))
        for layer, margin in ((2, (3, 0)), (3, (0, 3)), (4, (3, 0)), (5, (0, 3))):
            twice = conv(twice, f"{n}.branch7x7dbl_{layer}", margin=margin)
        pooled = conv(averages(x), f"{n}.branch_pool")
        return torch.cat([conv(x, f"{n}.branch1x1"), once, twice, pooled], 1)

    def e(x: torch.Tensor, n: str, pooled: torch.Tensor) -> torch.Tensor:
        once = conv(x, f"{n}.branch3x3_1")
        twice = conv(conv(x, f"{n}.branch3x3dbl_1"), f"{n}.branch3x3dbl_2", margin=1)
        parts = [conv(x, f"{n}.branch1x1")]
        for source, name in ((once, "branch3x3_2"), (twice, "branch3x3dbl_3")):
            parts.append(conv(source, f"{n}.{name}a", margin=(0, 1)))
            parts.append(conv(source, f"{n}.{name}b", margin=(1, 0)))
        return torch.cat([*parts, conv(pooled, f"{n}.branch_pool")], 1)

    x = (torch.from_numpy(enlarged(images)) / 255 - 0.5) / 0.5
    x = conv(x.float(), "Conv2d_1a_3x3", stride=2)
    x = conv(conv(x, "Conv2d_2a_3x3"), "Conv2d_2b_3x3", margin=1)
    x = conv(conv(F.max_pool2d(x, 3, 2), "Conv2d_3b_1x1"), "Conv2d_4a_3x3")
    x = F.max_pool2d(x, 3, 2)
    for name in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
        x = a(x, name)
    double = conv(conv(x, "Mixed_6a.branch3x3dbl_1"), "Mixed_6a.branch3x3dbl_2", margin=1)
    double = conv(double, "Mixed_6a.branch3x3dbl_3", stride=2)
    single = conv(x, "Mixed_6a.branch3x3", stride=2)
    x = torch.cat([single, double, F.max_pool2d(x, 3, 2)], 1)
    for name in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
        x = c(x, name)
    single = conv(conv(x, "Mixed_7a.branch3x3_1"), "Mixed_7a.branch3x3_2", stride=2)
    double = conv(conv(x, "Mixed_7a.branch7x7x3_1"), "Mixed_7a.branch7x7x3_2", margin=(0, 3))
    double = conv(double, "Mixed_7a.branch7x7x3_3", margin=(3, 0))
    double = conv(double, "Mixed_7a.branch7x7x3_4", stride=2)
    x = torch.cat([single, double, F.max_pool2d(x, 3, 2)], 1)
    x = e(x, "Mixed_7b", averages(x))
    x = e(x, "Mixed_7c", F.max_pool2d(x, 3, 1, 1) if tensorflow else averages(x))
    return x.flatten(2).mean(2).numpy()


def enlarged(images: np.ndarray) -> np.ndarray:
    """To 299x299 in three colours: between the centres of pixels, straight lines."""
    side = images.shape[-1]
    at = np.clip((np.arange(299) + 0.5) * side / 299 - 0.5, 0, side - 1)
    weight = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(side)))
    grey = np.einsum("yi,ncij,xj->ncyx", weight, images.astype(float), weight)
    return np.broadcast_to(grey, (len(images), 3, 299, 299)).copy()


@pytest.mark.parametrize("classes", [1000, 1008])
def test_the_features_are_those_of_the_network_written_out(
    images: np.ndarray, classes: int
) -> None:
    chance, given = torch.Generator().manual_seed(3), weights(classes)
    for name, weight in given.items():
        if ".bn." in name:
            given[name] = weight + torch.rand(weight.shape, generator=chance) / 5
    found = Inception(given).features(images[:1])
    expected, other = (written_out(given, images[:1], way) for way in (False, True))
    if classes == 1008:
        expected, other = other, expected
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() < 1e-4 * scale
    assert np.abs(found - other).max() > 1e-2 * scale  # negative control: the other's pooling


def test_weights_of_tensorflow_are_pooled_in_its_way(images: np.ndarray) -> None:
    usual, tensorflow = (Inception(weights(n)).features(images[:1]) for n in (1000, 1008))
    assert not np.allclose(usual, tensorflow)


def test_a_batch_norm_is_folded_into_its_convolution() -> None:
    chance = torch.Generator().manual_seed(1)
    given, name = weights(), "Conv2d_1a_3x3"
    for part in ("weight", "bias", "running_mean", "running_var"):
        given[f"{name}.bn.{part}"] = torch.rand(32, generator=chance) + 0.5
    x = torch.randn(1, 3, 9, 9, generator=chance)
    norm = [
        given[f"{name}.bn.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
    ]
    plain = torch.conv2d(x, given[f"{name}.conv.weight"], stride=2)
    plain = torch.nn.functional.batch_norm(plain, *norm, eps=1e-3).relu()
    torch.testing.assert_close(Inception(given)._conv(x, name, stride=2, margin=False), plain)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    save_file({"layer.weight": torch.zeros(3)}, tmp_path / "other.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(b"\0" * 40)
    (tmp_path / "pickled.pth").write_bytes(b"\x80\x04.")
    for name in ("other.safetensors", "cut.safetensors", "pickled.pth", "gone.safetensors"):
        with pytest.raises(DataLensError, match=name):
            Inception.read(tmp_path / name)
