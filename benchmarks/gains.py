"""What the grid of the moments gains, and what grain does to accuracy; one JSON, one page.

    python benchmarks/gains.py --data-dir DATA --out docs/results/gains

Each unit is one seed of one method on one data set at one epsilon. It is fitted twice, as it is and
with `equal` grid steps on and beside the diagonal of moments, on the same seeded noise (so NOT
private): the difference is what the grid gains. Of the first generator samples are judged with and
without grain, on the same images beneath. The judges are the usual network and a logistic
regression, with fewer images and epochs; at epsilon 1 the latter alone. Units that are in the file
already are passed over.
"""

import argparse
import json
import os
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import torch

from datalens.classifiers.judge import taught
from datalens.classifiers.labeller import LabellerPlan
from datalens.classifiers.simple import simple_predictions
from datalens.data import Records, load
from datalens.mechanism import sums
from datalens.synthesizers import METHODS, Synthesizer
from datalens.workflows.bench.machine import description, timed
from datalens.workflows.pictures import contact_sheet, save_sheet

SEEDS = range(3)
GREY = product(("class-gaussian", "datalens"), ("mnist", "fashion-mnist"), (0.2, 10.0, 1.0))
FACES = product(("class-gaussian", "datalens"), ("celeba-gender",), (10.0,))
UNITS = list(product(SEEDS, [*GREY, *FACES]))
IMAGES, EPOCHS = 5000, 4
FACE_IMAGES = 2000
LABEL_STEPS = 20
"""Of the labeller above epsilon 0.2, fewer than by default: they take most of the time."""
Unit = dict[str, Any]


def fitted(method: str, epsilon: float, train: Records, seed: int) -> Synthesizer:
    fewer = {"label_steps": LABEL_STEPS} if method == "datalens" and epsilon > 0.2 else {}
    return METHODS[method](epsilon=epsilon, **fewer).fit(train, ledger="gains", seed=seed)


def accuracies(
    made: Synthesizer, test: Records, seed: int, grain: float, network: bool
) -> dict[str, float]:
    count = IMAGES if test.public.shape[0] == 1 else FACE_IMAGES
    images, labels = made.sample(count, seed=seed, grain=grain)
    simple = simple_predictions("logistic-regression", images, labels, test.images, seed=seed)
    answers = {"linear": simple}
    if network:
        judge = taught(images, labels, test.public.n_classes, epochs=EPOCHS, seed=seed)
        answers["cnn"] = judge.predict(torch.from_numpy(test.images)).numpy()
    return {name: float((said == test.labels).mean()) for name, said in answers.items()}


def measured(unit: Unit, given: argparse.Namespace) -> Unit:
    name, seed, network = unit["data"], unit["seed"], unit["epsilon"] != 1
    train, test = (load(name, split=s, data_dir=given.data_dir) for s in ("train", "test"))
    labellers: list[Any] = []  # it has no part in the moments: one serves both fits

    def buy(*given: Any, **more: Any) -> Any:
        if not labellers:
            labellers.append(bought(*given, **more))
        return labellers[0]

    bought = LabellerPlan.buy
    found: Unit = {"records": len(train.labels), "test_images": len(test.labels)}
    with patch.object(LabellerPlan, "buy", buy):
        seconds, made = timed(fitted, unit["method"], unit["epsilon"], train, seed)
        found |= {"fit_seconds": seconds, "rank": made._model.rank, "grain": made._model.grain}
        for grain in (0, 1):
            found[f"grain {grain}"] = accuracies(made, test, seed, grain, network)
        if test.public.shape[0] == 1:
            with patch.object(sums, "BESIDE", sums.DIAGONAL):
                made_equal = fitted(unit["method"], unit["epsilon"], train, seed)
            found["equal"] = accuracies(made_equal, test, seed, 0, network)
            found["equal_rank"] = made_equal._model.rank
    if seed == 0 and unit["method"] == "datalens" and unit["epsilon"] == 10:
        for grain in (0, 1):
            labels = [label for label in range(test.public.n_classes) for _ in range(10)]
            labels = labels if len(labels) > 50 else [label for label in labels for _ in range(3)]
            images = made.sample(len(labels), labels, seed=0, grain=grain).images
            save_sheet(contact_sheet(images, 10, scale=1), given.out / f"{name}-grain-{grain}.png")
    return found


def spread(values: list[float], sign: str = "") -> str:
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):{sign}.1f}{deviation}"


def columns(own: list[Unit], one: str, other: str) -> str:
    """Of both judges: accuracy in one way, in the other, and the paired difference."""
    cells = []
    for judge in ("cnn", "linear"):
        if judge not in own[0][one]:
            cells += [""] * 3
            continue
        pair = [[100 * unit[way][judge] for unit in own] for way in (one, other)]
        apart = [b - a for a, b in zip(*pair, strict=True)]
        cells += [spread(pair[0]), spread(pair[1]), spread(apart, "+")]
    return " | ".join(cells)


def tables(units: list[Unit]) -> str:
    start = "| data | method | epsilon | n |"
    gains = [
        f"{start} directions, equal | as it is | CNN, equal | as it is | difference | linear, equal"
        " | as it is | difference |",
        "|---" * 12 + "|",
    ]
    grains = [
        f"{start} CNN, grain 0 | grain 1 | difference | linear, grain 0 | grain 1 | difference |",
        "|---" * 10 + "|",
    ]
    keys = dict.fromkeys((unit["data"], unit["method"], unit["epsilon"]) for unit in units)
    for key in sorted(keys, key=lambda key: (key[0] == "celeba-gender", *key)):
        own = [u for u in units if (u["data"], u["method"], u["epsilon"]) == key]
        start = f"| {key[0]} | {key[1]} | {key[2]:g} | {len(own)} |"
        grains.append(f"{start} {columns(own, 'grain 0', 'grain 1')} |")
        if "equal" in own[0]:
            ranks = (spread([u[name] for u in own]) for name in ("equal_rank", "rank"))
            gains.append(f"{start} {' | '.join(ranks)} | {columns(own, 'equal', 'grain 0')} |")
    return "\n".join([*gains, "", *grains])


def page(kept: dict[str, Any]) -> str:
    """README.md, made of what gains.json holds."""
    units, machine = kept["units"], kept["machine"]
    minutes = sum(unit["seconds"] for unit in units) / 60
    gains, grains = tables(units).split("\n\n")
    rows = [
        f"| {name} | ![grain 0]({name}-grain-0.png) | ![grain 1]({name}-grain-1.png) |"
        for name in sorted({unit["data"] for unit in units})
    ]
    return f"""# What the moments' grid gains, and what grain does

Accuracy in per cent of classifiers that learn from {kept["images"]} synthetic images
({kept["face_images"]} of faces), tested on all real test images: a CNN after {kept["epochs"]}
epochs, and a logistic regression. Mean and standard deviation over n seeds; differences are of
the same seed. Noise comes from seeds, so these runs are NOT PRIVATE. Above epsilon 0.2 `datalens`
has {kept["label_steps"]} steps of its labeller, fewer than by default. By `benchmarks/gains.py`:
{minutes:.0f} minutes on one core of an {machine["processor"]}, with other work beside it.

## Half the noise variance beside the diagonal

*equal*: the same noise on and beside the diagonal of second moments, at the same epsilon.
*directions*: how many directions of the covariance stand out of the noise and are kept. No grain.

{gains}

## Grain

The same images without noise painted on them (grain 0, the default) and with it (grain 1).

{grains}

`datalens` at epsilon 10, seed 0, not selected, without and with grain:

| data | grain 0 | grain 1 |
|---|---|---|
{chr(10).join(rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results/gains"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "gains.json"
    kept = json.loads(path.read_text()) if path.exists() else {"units": []}
    kept |= {"machine": description(), "images": IMAGES, "face_images": FACE_IMAGES}
    kept |= {"epochs": EPOCHS, "label_steps": LABEL_STEPS}
    with tempfile.TemporaryDirectory() as home:
        os.environ["DATALENS_HOME"] = home
        for seed, (method, data, epsilon) in UNITS:
            unit = {"data": data, "method": method, "epsilon": epsilon, "seed": seed}
            if any(unit.items() <= done.items() for done in kept["units"]):
                continue
            started = time.monotonic()
            unit |= measured(unit, given)
            unit["seconds"] = time.monotonic() - started
            print(json.dumps(unit), flush=True)
            kept["units"].append(unit)
            path.write_text(json.dumps(kept, indent=1) + "\n")
    (given.out / "README.md").write_text(page(kept))


if __name__ == "__main__":
    main()
