"""Simple classifiers by scikit-learn, on few pixels and few images, beside the networks.

They see averages over squares of pixels, so few that no side has more than 16, and learn from at
most 10,000 images, drawn by the seed.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
SimpleName = Literal["logistic-regression", "random-forest"]

MOST_IMAGES = 10_000
MOST_SIDE = 16
_REGULARISATION = 0.1
_TREES = 100


def coarse(images: Images) -> NDArray[np.float32]:
    """Averages (n, d) over squares of pixels, in [0, 1]; a rest at the margin is left out."""
    count, channels, height, width = images.shape
    side = -(-max(height, width) // MOST_SIDE)
    down, across = max(1, height // side), max(1, width // side)
    squares = images[:, :, : down * side, : across * side]
    squares = squares.reshape(count, channels, down, min(side, height), across, min(side, width))
    averages: NDArray[np.float32] = squares.mean((3, 5), dtype=np.float32).reshape(count, -1) / 255
    return averages


def subset(count: int, at_most: int, seed: int) -> NDArray[np.int64]:
    """Positions drawn without repetition, ascending; all of them where there are no more."""
    if count <= at_most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).permutation(count)[:at_most])


def simple_predictions(
    name: SimpleName, images: Images, labels: Labels, test_images: Images, *, seed: int
) -> Labels:
    """What a simple classifier that has learned from `images` says of `test_images`."""
    from sklearn.ensemble import RandomForestClassifier  # each takes a while to import
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(labels)) == 1:  # there is nothing to tell apart
        return np.full(len(test_images), labels[0])
    if name == "logistic-regression":
        model = LogisticRegression(C=_REGULARISATION, max_iter=500)
    else:
        model = RandomForestClassifier(_TREES, random_state=seed)
    model.fit(coarse(images), labels)
    predicted: Labels = model.predict(coarse(test_images))
    return predicted
