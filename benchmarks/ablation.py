"""One change at a time to what `datalens` does, judged on held-out training records.

    python benchmarks/ablation.py --jobs 2
    python benchmarks/ablation.py --jobs 2 --first 6 --images 50000 --seeds 1 \
        --out docs/results/ablation-50000

The first has every change, the second the main ones with as many images as elsewhere.
"""

from held_out import Change, measure

PLAIN = {"clusters": 1, "label_share": 0.0, "spread": 1.0}
"""One Gaussian for each class, which keeps its own labels."""
CHANGES: list[Change] = [
    ("class-gaussian", {}),
    ("datalens", PLAIN),
    ("datalens", PLAIN | {"clusters": 20}),
    ("datalens", {"clusters": 1, "spread": 1.0}),
    ("datalens", {}),
    ("datalens", {"spread": 1.0}),
    ("datalens", {"spread": 2.0}),
    ("datalens", {"own_label": 0.0}),
    ("datalens", {"own_label": 3.0}),
    ("datalens", {"label_share": 0.5}),
    ("datalens", {"cluster_share": 0.3}),
    ("datalens", {"vote_share": 0.2}),
]


if __name__ == "__main__":
    measure(
        "ablation",
        __doc__.splitlines()[0],
        CHANGES,
        datasets=["mnist", "fashion-mnist"],
        epsilons=[1.0],
        seeds=2,
    )
