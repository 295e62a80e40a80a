"""Publish a private data set: plan, spend once, check, draw.

    python examples/publish.py --epsilon 3 --out published

The bundled images of clothes play the part of yours; for yours, give --data FOLDER. What is in
the folder `published` afterwards may all be published.
"""

import argparse
from pathlib import Path

import numpy as np

from datalens import DataLens, load
from datalens.planning.planner import outlook
from datalens.privacy.verify import verify
from datalens.workflows.report.public import write_report


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default="fashion-mini", help="a name, an NPZ, or a folder")
    options.add_argument("--epsilon", type=float, default=3.0)
    options.add_argument("--count", type=int, default=5000, help="images to draw")
    options.add_argument("--ledger", help="that pays; else the one named after the data")
    options.add_argument("--out", type=Path, default=Path("published"))
    given = options.parse_args()

    records = load(given.data)
    plan = outlook(records.public, epsilon=given.epsilon)  # public facts only; spends nothing
    print(f"A judge should get {plan.best.prediction.accuracy:.0%} right, says the planner.")
    if not plan.useful:
        print("That is hardly better than chance: more records, or a larger epsilon, are needed.")

    synthesizer = DataLens(epsilon=given.epsilon, delta=1e-5)
    synthesizer.fit(records, ledger=given.ledger)  # the only line that spends
    print(synthesizer.certificate["statement"])

    synthesizer.save(given.out)  # configuration, ledger extract, generator, certificate
    write_report(given.out)
    if wrong := verify(given.out):  # what a stranger would do: recompute, without the data
        raise SystemExit("\n".join(wrong))

    images, labels = synthesizer.sample(given.count)  # free, as often as you like
    np.savez_compressed(given.out / "synthetic.npz", images=images, labels=labels)
    print(f"{given.out}/report.html and {len(images)} images in {given.out}/synthetic.npz")


if __name__ == "__main__":
    main()
