"""Does each rival learn at all? A budget so large that its noise is next to nothing.

    python benchmarks/noise_off.py --jobs 2
    python benchmarks/noise_off.py --datasets fashion-mnist --only pategan --jobs 2

Judged on held-out training records of MNIST, and of Fashion-MNIST for the one rival that stays
behind its published figure there. Where noise costs nothing, so do steps and large
shards: settings beside a method's name are those that it was given.
"""

from typing import Any

from held_out import Change, measure

EPSILON = 10_000.0
FEW: dict[str, Any] = {"n_teachers": 100}
RIVALS: list[Change] = [
    ("dp-merf", {}),
    ("dpgan", {}),
    ("gswgan", FEW | {"refresh_every": 20}),
    (
        "gpate",
        FEW
        | {"refresh_every": 5, "steps": 2000}
        | {"generator_learning_rate": 1e-3, "moving_average": 0.998},
    ),
    ("pategan", FEW | {"steps": 1000, "moving_average": 0.98, "diversity": 0.3}),
    ("gswgan", {}),
    ("gpate", {}),
    ("pategan", {}),
]


if __name__ == "__main__":
    measure(
        "noise_off",
        __doc__.splitlines()[0],
        RIVALS,
        datasets=["mnist"],
        epsilons=[EPSILON],
        seeds=1,
    )
