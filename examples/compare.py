"""Compare methods at my epsilon.

    python examples/compare.py --epsilon 1

Each method spends a budget of its own, and then a classifier learns from its images and is tested
on real ones. Choosing by that figure is a look at the real data that no certificate covers: do it
on public data that are like yours, here the bundled clothes. Settings are small, so that it takes
a minute or two: one fit each, and logistic regression where the bench has a CNN.
"""

import argparse

from datalens import Records, load
from datalens.synthesizers import METHODS
from datalens.utility.accuracy import judged_accuracy


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default="fashion-mini", help="with a test split")
    options.add_argument("--epsilon", type=float, default=1.0)
    options.add_argument("--methods", default="class-gaussian,datalens,dp-merf")
    options.add_argument("--records", type=int, default=10_000, help="at most, of those there are")
    options.add_argument("--images", type=int, default=5000, help="drawn from each")
    given = options.parse_args()

    everything, test = load(given.data), load(given.data, split="test")
    records = Records.from_arrays(
        everything.images[: given.records],
        everything.labels[: given.records],
        n_classes=everything.public.n_classes,
        name=everything.public.name,
    )
    print(f"{len(records.labels)} records of {given.data}, epsilon {given.epsilon:g}")
    for name in given.methods.split(","):
        synthesizer = METHODS[name](epsilon=given.epsilon, delta=1e-5)
        synthesizer.fit(records)
        images, labels = synthesizer.sample(given.images, seed=0)
        found = judged_accuracy(images, labels, test, classifier="logistic-regression")
        print(f"{name:16} {found.accuracy:6.1%} right", flush=True)


if __name__ == "__main__":
    main()
