"""Features of images by a frozen public network: made once, kept in a cache, and no secret of it.

A feature depends on its own image and on public weights, so that making them costs no privacy.
They are records nevertheless: the cache is as private as the images are.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from classifying.efficientnet_lite0 import EfficientNetLite0
from classifying.resnet18 import ResNet18
from datalens.data import Records
from datalens.data.whereabouts import cache_folder
from datalens.errors import DataLensError

AT_ONCE = 50
IN_A_FILE = 1000
"""Images whose features are kept together; what is interrupted loses at most so many."""


class Backbone(Protocol):
    """From images (n, 3, side, side) in [0, 1] to features, each of its own image alone."""

    name: str
    side: int

    def __call__(self, images: Tensor) -> Tensor: ...


def backbone(name: str, weights: Path | None) -> Backbone:
    """By name; a ResNet-18 from the file that is given."""
    if name == EfficientNetLite0.name:
        return EfficientNetLite0.from_package()
    if name != ResNet18.name:
        raise DataLensError(f"There is no backbone {name!r}.")
    if weights is None:
        raise DataLensError(
            "resnet18 needs its weights: --weights model.safetensors, with torchvision's names"
            " (for instance that of timm/resnet18.tv_in1k)."
        )
    return ResNet18.from_file(weights)


def cached_features(
    records: Records,
    network: Backbone,
    *,
    cache: Path | None = None,
    at_file: Callable[[int, int], None] = lambda done, of: None,
) -> Tensor:
    """(n, features), made where they are not in the cache yet."""
    folder = (cache or cache_folder() / "features") / _key(records, network)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{start}.npy" for start in range(0, len(records), IN_A_FILE)]
    for number, file in enumerate(files):
        if not file.exists():
            start = number * IN_A_FILE
            _keep(file, features_of(records.images[start : start + IN_A_FILE], network))
        at_file(number + 1, len(files))
    return torch.from_numpy(np.concatenate([np.load(file) for file in files])).float()


def features_of(images: np.ndarray, network: Backbone) -> np.ndarray:
    """Of uint8 images of any size, which are brought to the size that the network knows."""
    pixels = torch.from_numpy(images)
    return torch.cat([_some(part, network) for part in pixels.split(AT_ONCE)]).half().numpy()


def in_proportion(features: Tensor) -> Tensor:
    """Each row without its mean and of length 1, by itself: its scale says little."""
    return F.normalize(features - features.mean(1, keepdim=True))


def _some(images: Tensor, network: Backbone) -> Tensor:
    x = images.float().div(255).expand(-1, 3, -1, -1)
    x = F.interpolate(x, size=network.side, mode="bilinear", align_corners=False)
    return network(x.contiguous(memory_format=torch.channels_last))


def _key(records: Records, network: Backbone) -> str:
    """Different for different images, sizes and weights: a blank image shows the weights."""
    blank = features_of(np.full((1, 3, 32, 32), 127, np.uint8), network)
    digest = hashlib.sha256(records.fingerprint() + blank.tobytes()).hexdigest()[:16]
    return f"{network.name}-{network.side}-{digest}"


def _keep(file: Path, features: np.ndarray) -> None:
    part = file.with_suffix(".part")
    with part.open("wb") as stream:
        np.save(stream, features)
    part.replace(file)
