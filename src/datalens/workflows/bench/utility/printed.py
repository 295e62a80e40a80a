"""What the paper prints, to stand beside what is measured here.

Inception Scores are by classifiers trained on real data, as ours are; its FIDs are in features of
Inception-v3, and ours are not, so that only their order may be compared.

Accuracy of a classifier trained on synthetic images and tested on real ones, delta 1e-5. The code
behind it keeps the best epoch on the test set: these compare with best-on-test figures only.
Epsilon 1 is printed in both tables, with one difference: DP-GAN on MNIST has 0.4046 in Table 2.
"""

from collections.abc import Collection

from datalens.data import places365

Row = dict[float, float]
"""Figures of one method, by epsilon."""

DATALENS = "DataLens"

TABLE_1: dict[str, dict[str, Row]] = {
    "mnist": {
        "DP-GAN": {1: 0.4036, 10: 0.8011},
        "PATE-GAN": {1: 0.4168, 10: 0.6667},
        "G-PATE": {1: 0.5810, 10: 0.8092},
        "GS-WGAN": {1: 0.1432, 10: 0.8075},
        DATALENS: {1: 0.7123, 10: 0.8066},
    },
    "fashion-mnist": {
        "DP-GAN": {1: 0.1053, 10: 0.6098},
        "PATE-GAN": {1: 0.4222, 10: 0.6218},
        "G-PATE": {1: 0.5567, 10: 0.6934},
        "GS-WGAN": {1: 0.1661, 10: 0.6579},
        DATALENS: {1: 0.6478, 10: 0.7061},
    },
    "celeba-gender": {
        "DP-GAN": {1: 0.5330, 10: 0.5211},
        "PATE-GAN": {1: 0.6068, 10: 0.6535},
        "G-PATE": {1: 0.6702, 10: 0.6897},
        "GS-WGAN": {1: 0.5901, 10: 0.6136},
        DATALENS: {1: 0.7058, 10: 0.7287},
    },
    "celeba-hair": {
        "DP-GAN": {1: 0.3447, 10: 0.3920},
        "PATE-GAN": {1: 0.3789, 10: 0.3900},
        "G-PATE": {1: 0.4985, 10: 0.6217},
        "GS-WGAN": {1: 0.4203, 10: 0.5225},
        DATALENS: {1: 0.6061, 10: 0.6224},
    },
    "places365": {
        "DP-GAN": {1: 0.3200, 10: 0.3292},
        "PATE-GAN": {1: 0.3238, 10: 0.3796},
        "G-PATE": {1: 0.3483, 10: 0.3883},
        "GS-WGAN": {1: 0.3375, 10: 0.3725},
        DATALENS: {1: 0.4313, 10: 0.4875},
    },
}

TABLE_2: dict[str, dict[str, Row]] = {
    "mnist": {
        "DP-GAN": {0.2: 0.1104, 0.4: 0.1524, 0.6: 0.1022, 0.8: 0.3732},
        "PATE-GAN": {0.2: 0.2176, 0.4: 0.2399, 0.6: 0.3484, 0.8: 0.3571},
        "G-PATE": {0.2: 0.2230, 0.4: 0.2478, 0.6: 0.4184, 0.8: 0.5377},
        "GS-WGAN": {0.2: 0.0972, 0.4: 0.1029, 0.6: 0.1044, 0.8: 0.1170},
        DATALENS: {0.2: 0.2344, 0.4: 0.2919, 0.6: 0.4201, 0.8: 0.6485},
    },
    "fashion-mnist": {
        "DP-GAN": {0.2: 0.1021, 0.4: 0.1302, 0.6: 0.0998, 0.8: 0.1210},
        "PATE-GAN": {0.2: 0.1605, 0.4: 0.2977, 0.6: 0.3698, 0.8: 0.3659},
        "G-PATE": {0.2: 0.1874, 0.4: 0.3020, 0.6: 0.4283, 0.8: 0.5258},
        "GS-WGAN": {0.2: 0.1000, 0.4: 0.1001, 0.6: 0.1144, 0.8: 0.1242},
        DATALENS: {0.2: 0.2226, 0.4: 0.3863, 0.6: 0.4314, 0.8: 0.5534},
    },
}

NOT_PRIVATE = {
    "mnist": 0.9653,
    "fashion-mnist": 0.8032,
    "celeba-gender": 0.8149,
    "celeba-hair": 0.7678,
    "places365": 0.7404,
}
"""DC-GAN without privacy, Table 1."""

SCORES: dict[str, dict[str, Row]] = {
    "mnist": {
        "DP-GAN": {1: 1.00, 10: 1.00},
        "PATE-GAN": {1: 1.19, 10: 1.46},
        "G-PATE": {1: 3.60, 10: 5.16},
        "GS-WGAN": {1: 1.00, 10: 8.59},
        DATALENS: {1: 4.37, 10: 5.78},
    },
    "fashion-mnist": {
        "DP-GAN": {1: 1.03, 10: 1.05},
        "PATE-GAN": {1: 1.69, 10: 2.35},
        "G-PATE": {1: 3.41, 10: 4.33},
        "GS-WGAN": {1: 1.00, 10: 5.87},
        DATALENS: {1: 3.93, 10: 4.58},
    },
    "celeba-gender": {
        "DP-GAN": {1: 1.00, 10: 1.00},
        "PATE-GAN": {1: 1.15, 10: 1.16},
        "G-PATE": {1: 1.11, 10: 1.12},
        "GS-WGAN": {1: 1.00, 10: 1.00},
        DATALENS: {1: 1.18, 10: 1.42},
    },
}
"""Inception Scores, Tables 3 and 12. Of real data: 9.86, 9.01 and 1.88."""

DISTANCES: dict[str, dict[str, Row]] = {
    "mnist": {
        "DP-GAN": {1: 470.20, 10: 304.86},
        "PATE-GAN": {1: 231.54, 10: 253.55},
        "G-PATE": {1: 153.38, 10: 150.62},
        "GS-WGAN": {1: 489.75, 10: 58.77},
        DATALENS: {1: 186.06, 10: 173.50},
    },
    "fashion-mnist": {
        "DP-GAN": {1: 472.03, 10: 433.38},
        "PATE-GAN": {1: 253.19, 10: 229.25},
        "G-PATE": {1: 214.78, 10: 171.90},
        "GS-WGAN": {1: 587.31, 10: 135.47},
        DATALENS: {1: 194.98, 10: 167.68},
    },
    "celeba-gender": {
        "DP-GAN": {1: 485.92, 10: 485.41},
        "PATE-GAN": {1: 434.47, 10: 424.60},
        "G-PATE": {1: 302.45, 10: 323.95},
        "GS-WGAN": {1: 437.33, 10: 432.58},
        DATALENS: {1: 297.73, 10: 320.84},
    },
}
"""FID, Table 12. Of real data: 1.04, 1.54 and 2.38."""


RECORDS = {
    "mnist": 60_000,
    "fashion-mnist": 60_000,
    "celeba-gender": 162_770,
    "celeba-hair": 96_000,
    "places365": 120_000,
}
"""Training records the paper had."""
NOT_PRINTED = ("celeba-hair",)
"""Of these it prints no number: it is about so many."""


def stands_for(dataset: str, class_names: Collection[str]) -> str:
    """The data set whose figures compare: itself, or Places365 where the classes are the same."""
    other = dataset not in TABLE_1 and set(class_names) == set(places365.CLASS_NAMES)
    return "places365" if other else dataset


def printed(dataset: str) -> dict[str, Row]:
    """Every method's row in the paper, DataLens first; nothing for data it did not try."""
    large, small = TABLE_1.get(dataset, {}), TABLE_2.get(dataset, {})
    return {name: small.get(name, {}) | large[name] for name in _first(large)}


def printed_scores(dataset: str) -> dict[str, Row]:
    """Its Inception Scores, in that order."""
    return {name: SCORES[dataset][name] for name in _first(SCORES.get(dataset, {}))}


def printed_distances(dataset: str) -> dict[str, Row]:
    """Its FIDs, in that order."""
    return {name: DISTANCES[dataset][name] for name in _first(DISTANCES.get(dataset, {}))}


def _first(rows: dict[str, Row]) -> list[str]:
    return sorted(rows, key=lambda name: name != DATALENS)


def table_of(epsilon: float) -> int:
    """Where the figure at this epsilon was taken from."""
    return 1 if epsilon >= 1 else 2
