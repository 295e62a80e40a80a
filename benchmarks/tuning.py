"""The same tuning for every rival: its settings, and four changes of them, on held-out records.

    python benchmarks/tuning.py --jobs 2 --images 5000

On bundled clothes, a part of Fashion-MNIST's training set. A sum over the 16,666 that are learned
from is as clear at epsilon 5 as one over 60,000 at about 1.4, in the middle of the tables' budgets.
A change becomes the setting if it gains more than three points, and does so again when it is
repeated (`--seeds 2`).
"""

from held_out import Change, measure

RIVALS: list[Change] = [
    ("dp-merf", {}),
    ("dp-merf", {"updates": 3000}),
    ("dp-merf", {"learning_rate": 3e-3}),
    ("dp-merf", {"length_scale": 0.25}),
    ("dp-merf", {"waves": 1000}),
    ("pategan", {}),
    ("pategan", {"steps": 100}),
    ("pategan", {"generator_learning_rate": 1e-3}),
    ("pategan", {"batch_size": 64}),
    ("pategan", {"n_teachers": 800}),
    ("gpate", {}),
    ("gpate", {"steps": 500}),
    ("gpate", {"generator_learning_rate": 1e-3}),
    ("gpate", {"batch_size": 16}),
    ("gpate", {"projected": 10}),
    ("gswgan", {}),
    ("gswgan", {"steps": 3000}),
    ("gswgan", {"generator_learning_rate": 5e-4}),
    ("gswgan", {"batch_size": 32}),
    ("gswgan", {"n_teachers": 70}),
    ("dpgan", {}),
    ("dpgan", {"steps": 750}),
    ("dpgan", {"generator_learning_rate": 5e-4}),
    ("dpgan", {"batch_size": 128}),
    ("dpgan", {"weight_clip": 0.05}),
]


if __name__ == "__main__":
    measure(
        "tuning",
        __doc__.splitlines()[0],
        RIVALS,
        datasets=["fashion-mini"],
        epsilons=[5.0],
        seeds=1,
    )
