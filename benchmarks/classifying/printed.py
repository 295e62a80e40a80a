"""What the paper prints: accuracy in per cent and its standard deviation over 10 runs."""

from typing import NamedTuple


class Printed(NamedTuple):
    """One cell of a table."""

    mean: float
    spread: float


def _row(*pairs: tuple[float, float]) -> dict[float, Printed]:
    """Keep 0.6, 0.7 and 0.8, and the whole gradient, which the paper calls GM-DP."""
    return {keep: Printed(*pair) for keep, pair in zip((0.6, 0.7, 0.8, 1.0), pairs, strict=True)}


Rows = dict[float | None, dict[float, Printed]]
"""By epsilon, where None is no noise, and by keep."""

TABLE_8A: Rows = {
    0.05: _row((73.87, 4.77), (75.81, 3.59), (77.15, 2.89), (78.40, 4.00)),
    0.1: _row((85.67, 1.48), (86.12, 1.39), (85.88, 1.97), (84.55, 0.98)),
    0.2: _row((89.84, 0.64), (90.25, 0.40), (90.80, 1.04), (91.17, 0.37)),
    0.3: _row((91.21, 0.53), (91.85, 0.21), (92.35, 0.53), (93.31, 0.42)),
    0.5: _row((92.83, 0.52), (93.50, 0.75), (93.82, 0.46), (94.38, 0.24)),
    0.7: _row((94.41, 0.19), (94.61, 0.24), (94.65, 0.27), (95.08, 0.10)),
    1.0: _row((95.13, 0.33), (95.22, 0.20), (95.42, 0.20), (95.41, 0.26)),
    None: _row((97.94, 0.19), (98.58, 0.11), (98.79, 0.09), (99.08, 0.04)),
}
"""MNIST."""

TABLE_8B: Rows = {
    0.025: _row((42.18, 0.89), (44.32, 0.59), (45.87, 0.97), (41.58, 2.01)),
    0.05: _row((65.10, 0.48), (71.47, 0.32), (72.03, 0.25), (71.29, 0.27)),
    0.075: _row((74.70, 0.26), (75.22, 0.21), (75.62, 0.15), (75.13, 0.19)),
    0.1: _row((75.56, 0.18), (76.91, 0.17), (77.65, 0.20), (77.05, 0.09)),
    0.2: _row((79.44, 0.07), (80.23, 0.12), (80.76, 0.08), (80.37, 0.13)),
    0.3: _row((80.19, 0.17), (81.70, 0.08), (82.15, 0.15), (82.19, 0.10)),
    0.4: _row((81.91, 0.10), (82.86, 0.05), (82.82, 0.13), (82.80, 0.09)),
    0.6: _row((82.56, 0.36), (82.91, 0.20), (83.44, 0.15), (83.46, 0.04)),
    0.8: _row((83.40, 0.06), (83.67, 0.22), (84.10, 0.07), (84.44, 0.07)),
    2.0: _row((84.34, 0.08), (84.80, 0.18), (85.18, 0.08), (85.97, 0.04)),
    4.0: _row((84.82, 0.04), (85.11, 0.08), (85.40, 0.08), (86.63, 0.05)),
    8.0: _row((85.13, 0.05), (85.37, 0.04), (85.62, 0.04), (87.05, 0.03)),
    None: _row((85.19, 0.30), (85.42, 0.02), (85.80, 0.03), (87.85, 0.02)),
}
"""CIFAR-10 on features of a ResNet-18."""

TABLE_9: Rows = {
    0.05: {0.2: Printed(74.25, 3.25), 0.4: Printed(78.45, 2.89), 0.6: Printed(73.55, 1.97)},
    0.1: {0.2: Printed(83.65, 0.73), 0.4: Printed(85.59, 1.39), 0.6: Printed(86.41, 0.70)},
    0.2: {0.2: Printed(89.10, 1.22), 0.4: Printed(90.48, 0.73), 0.6: Printed(89.30, 0.74)},
}
"""MNIST, a share of the coordinates; its other columns are those of Table 8a."""

TABLE_10: dict[float, dict[tuple[str, float], Printed]] = {
    0.1: {
        ("full-noise", 0.8): Printed(83.86, 1.49),
        ("topagg", 0.8): Printed(85.88, 1.97),
        ("no-noise", 0.8): Printed(91.96, 0.61),
        ("topagg", 1.0): Printed(85.05, 1.85),
        ("no-noise", 1.0): Printed(94.26, 0.43),
    },
    1.0: {
        ("full-noise", 0.8): Printed(94.95, 0.25),
        ("topagg", 0.8): Printed(95.42, 0.20),
        ("no-noise", 0.8): Printed(98.03, 0.09),
    },
}
"""MNIST, by epsilon, variant and keep. At epsilon 1 the row without compression is not legible."""
