"""README.md from the cells that are there: ours, and the paper's rows beside them."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from classifying.cells import (
    BACKBONES,
    BESIDE,
    GREY,
    HELD,
    SMALL,
    Cell,
    Network,
    cifar,
    dpdl,
    mnist,
    product,
)
from classifying.printed import TABLE_8A, TABLE_8B, TABLE_9, TABLE_10, Printed, Rows
from classifying.results import Result
from classifying.table11 import KEEPS, TABLE_11
from datalens.data.documents import read_json
from datalens.workflows.bench.tables import for_markdown
from datalens.workflows.bench.utility.cells import plain

Results = Mapping[Cell, Result]
CLOSE = 1.5
"""Points below the paper's figure that are allowed."""

ABOUT = """# Private classifiers, beside the paper's appendix A

Per cent of real test images that a classifier puts into the right class, after its last step: mean
± sample standard deviation over repetitions (n where there are not three). A repetition has noise
and Poisson sampling of its own from the operating system, so that its seed names the first weights
at most, and a repeated run comes near, not to the same digits. Epsilon is for delta 1e-5, by `pld`,
the accountant that `datalens classify` uses. Every recipe was chosen on held-out training records.
Two of them were looked for anew because a test figure was poor: that without noise, and the CNN's
clip and steps at epsilon 10 (`default`); their first cells were replaced. Minutes are processor
time of one thread. The paper's figures are means over 10 runs at parameters that a grid search
chose for every cell, and it does not say on which data.

This page is rewritten by `python benchmarks/classifiers.py pages` from the files in `cells/`, which
have every parameter, each repetition and the machine. `python benchmarks/classifiers.py run` makes
those that are missing.
"""


def page(results: Results, search: Sequence[Mapping[str, Any]], utility: Path) -> str:
    """All sections that there are results for."""
    sections = [
        _held(results),
        _helps(results),
        _table_8a(results),
        _table_11(results),
        _table_9(results),
        _table_10(results),
        *(_table_8b(results, network) for network in BACKBONES),
        _scatter(results),
        _beside(results, utility),
        _found(search),
        _trainings(results),
    ]
    return "\n".join([ABOUT, *(section for section in sections if section)])


def _held(results: Results) -> str:
    rows = []
    for epsilon in HELD:
        printed, ours = TABLE_8A[epsilon][0.8], results.get(mnist(0.8, epsilon))
        if ours:
            more = 100 * ours.accuracy - printed.mean
            verdict = "above" if more >= 0 else "holds" if more >= -CLOSE else "NOT MET"
            rows.append([f"{epsilon:g}", _shown(ours), _of(printed), f"{more:+.2f}", verdict])
    heads = ["epsilon", "ours, keep 0.8", "the paper's, keep 0.8", "points more", "within 1.5"]
    return _section("What must hold, on MNIST", heads, rows)


def _helps(results: Results) -> str:
    """Keep 0.8 and 1 at the same epsilon, with the same recipe."""
    rows, signs = [], []
    for epsilon in SMALL:
        few, all_ = (results.get(mnist(keep, epsilon)) for keep in (0.8, 1.0))
        if few and all_ and few.spread is not None and all_.spread is not None:
            gain = 100 * (few.accuracy - all_.accuracy)
            variance = few.spread**2 / len(few.seeds) + all_.spread**2 / len(all_.seeds)
            error = 100 * math.sqrt(variance)
            signs.append((gain > 2 * error) - (gain < -2 * error))
            rows.append([f"{epsilon:g}", _shown(few), _shown(all_), f"{gain:+.2f} ± {error:.2f}"])
    heads = ["epsilon", "keep 0.8", "keep 1 (DP-SGD)", "gain ± standard error"]
    table = _section("Does compression help at equal epsilon?", heads, rows)
    return f"{table}\n{_sentence(signs)}\n" if table else ""


def _sentence(signs: Sequence[int]) -> str:
    better, worse = signs.count(1), signs.count(-1)
    return (
        f"Of {len(signs)} epsilons, keeping 0.8 of each gradient is better than all of it by more"
        f" than two standard errors at {better}, worse at {worse}, and neither at"
        f" {signs.count(0)}."
    )


def _table_8a(results: Results) -> str:
    title = "Table 8a: MNIST, the CNN of the Opacus example ([figure 3](figure3.svg))"
    beside = {
        "keep 1 by moments (DPDL), ours": dpdl,
        "`scatter`: a linear model on wavelets, ours": partial(product, "mnist", "wavelets"),
    }
    return _by_epsilon(title, results, mnist, TABLE_8A, KEEPS, "keep {:g}", beside=beside)


def _table_11(results: Results) -> str:
    def printed(keep: float, epsilon: float | None) -> Cell:
        return Cell(dataset="mnist", keep=keep, epsilon=epsilon, recipe="printed")

    rows = {epsilon: TABLE_8A[epsilon] for epsilon in TABLE_11["mnist"]}
    title = "The same with Table 11's clip, noise, batch and learning rate (which stays)"
    return _by_epsilon(title, results, printed, rows, KEEPS, "keep {:g}")


def _table_9(results: Results) -> str:
    def by_share(keep: float, epsilon: float | None) -> Cell:
        return mnist(keep, epsilon, "dimensions")

    title = "Table 9: a share of the coordinates, with the noise of the whole gradient"
    return _by_epsilon(title, results, by_share, TABLE_9, (0.2, 0.4, 0.6), "coordinates {:g}")


def _table_10(results: Results) -> str:
    names = {
        ("full-noise", 0.8): "keep 0.8, full noise (TopK-GM-DP)",
        ("topagg", 0.8): "keep 0.8, noise of its bound (TopAgg)",
        ("no-noise", 0.8): "keep 0.8, no noise: NOT PRIVATE (TopK-SGD)",
        ("topagg", 1.0): "keep 1 (DP-SGD)",
        ("no-noise", 1.0): "keep 1, no noise: NOT PRIVATE (clipped SGD)",
    }
    if not any(mnist(keep, e, v) in results for v, keep in names for e in TABLE_10):  # type: ignore[arg-type]
        return ""
    rows = []
    for (variant, keep), name in names.items():
        row = [name]
        for epsilon, printed in TABLE_10.items():
            cell = mnist(keep, epsilon, variant)  # type: ignore[arg-type]
            row += [_shown(results.get(cell)), _of(printed.get((variant, keep)))]
        rows.append(row)
    heads = [""] + [f"{who}, epsilon {e:g}" for e in TABLE_10 for who in ("ours", "the paper")]
    return _section("Table 10: as many steps, and what changes", heads, rows)


def _table_8b(results: Results, network: Network) -> str:
    title = f"Table 8b: CIFAR-10, a linear model on frozen features, ours of {network}"
    cell = partial(cifar, network)
    return _by_epsilon(title, results, cell, TABLE_8B, KEEPS, "keep {:g}", theirs="resnet18")


def _scatter(results: Results) -> str:
    rows = []
    for dataset in GREY:
        cells = [product(dataset, "wavelets", epsilon) for epsilon in SMALL]
        if any(cell in results for cell in cells):
            rows.append([dataset, *(_shown(results.get(cell)) for cell in cells)])
    heads = ["data", *(f"{epsilon:g}" for epsilon in SMALL)]
    return _section("`datalens classify --method scatter`: fixed wavelet features", heads, rows)


def _beside(results: Results, utility: Path) -> str:
    """Private classifiers, and a classifier trained on synthetic data, of the same epsilon."""
    rows = []
    for dataset in GREY:
        for epsilon in BESIDE:
            trained = [results.get(product(dataset, n, epsilon)) for n in ("cnn", "wavelets")]
            if any(trained):
                file = utility / f"{dataset}-datalens-epsilon-{plain(epsilon)}.json"
                rows.append(
                    [
                        dataset,
                        f"{epsilon:g}",
                        *(
                            f"{_shown(each)}; {each.minutes:.1f} min" if each else ""
                            for each in trained
                        ),
                        _synthetic(file),
                    ]
                )
    heads = ["data", "epsilon", "`classify`: topagg", "`classify --method scatter`"]
    heads.append("a CNN on images by `fit`")
    title = "One private model, or private images and any model: accuracy, and minutes in all"
    return _section(title, heads, rows)


def _synthetic(file: Path) -> str:
    """As the utility benchmark left it: fitting, sampling and training the judge."""
    if not file.exists():
        return ""
    found = read_json(file)
    each = [sum(repetition["seconds"].values()) / 60 for repetition in found["repetitions"]]
    accuracy, minutes = found["accuracy"], sum(each) / len(each)
    spread = f" ± {100 * accuracy['spread']:.1f}" if accuracy["spread"] is not None else ""
    return f"{100 * accuracy['mean']:.1f}{spread}{_count(len(each))}; {minutes:.1f} min"


def _found(search: Sequence[Mapping[str, Any]]) -> str:
    names = ["epsilon", "keep", "clip", "batch_size", "steps", "way", "learning_rate"]
    tried = [{**each, "epsilon": each["epsilon"] or math.inf} for each in search]
    rows = [
        [each["dataset"], *(f"{each[n]:g}" for n in names), f"{100 * each['accuracy']:.1f}"]
        for each in sorted(tried, key=lambda each: [each[n] for n in ("dataset", *names)])
    ]
    title = "The search: five sixths of the training records, judged on the others, one seed;"
    title += " an epsilon of inf is no noise"
    return _section(title, ["data", *names, "accuracy %"], rows)


def _trainings(results: Results) -> str:
    """What each cell was, and what it cost."""
    rows = []
    for cell, result in sorted(results.items(), key=lambda each: each[0].stem):
        training = result.training.get("recipe", {}) | result.training
        epsilon = result.epsilon or {}
        rows.append(
            [
                cell.stem,
                f"{training.get('clip', training.get('max_grad_norm', 1)):g}",
                f"{training['batch_size']:g}",
                f"{training['steps']:g}",
                f"{training['learning_rate']:g}",
                f"{training['noise_multiplier']:.4g}" if result.epsilon else "none",
                *(f"{epsilon[n]:.3f}" if n in epsilon else "" for n in ("pld", "certified")),
                f"{epsilon['moments']:.3f}" if "moments" in epsilon else "",
                f"{result.minutes:.1f}",
            ]
        )
    heads = ["cell", "clip", "batch", "steps", "rate", "noise", "epsilon: pld", "certified"]
    return _section("Every cell", [*heads, "moments", "minutes"], rows)


def _by_epsilon(
    title: str,
    results: Results,
    cell: Callable[[float, float | None], Cell],
    printed: Rows,
    keeps: Sequence[float],
    name: str,
    theirs: str = "the paper",
    beside: Mapping[str, Callable[[float], Cell]] | None = None,
) -> str:
    """Two rows for each keep, ours and the paper's, and those that are ours alone."""
    columns = [e for e in printed if any(cell(keep, e) in results for keep in keeps)]
    rows = []
    for keep in keeps if columns else ():
        ours = [_shown(results.get(cell(keep, epsilon))) for epsilon in columns]
        rows.append([f"{name.format(keep)}, ours", *ours])
        rows.append([f"{name.format(keep)}, {theirs}", *(_of(printed[e][keep]) for e in columns)])
    for words, other in (beside or {}).items() if columns else ():
        found = [e and _shown(results.get(other(e))) for e in columns]
        if any(found):
            rows.append([words, *(each or "" for each in found)])
    heads = ["epsilon", *("no noise" if e is None else f"{e:g}" for e in columns)]
    return _section(title, heads, rows)


def _section(title: str, heads: list[str], rows: list[list[str]]) -> str:
    return for_markdown(title, (heads, rows)) if rows else ""


def _shown(result: Result | None) -> str:
    if result is None:
        return ""
    spread = "" if result.spread is None else f" ± {100 * result.spread:.2f}"
    return f"{100 * result.accuracy:.2f}{spread}{_count(len(result.seeds))}"


def _count(repetitions: int) -> str:
    return "" if repetitions == 3 else f" (n = {repetitions})"


def _of(printed: Printed | None) -> str:
    return f"{printed.mean:.2f} ± {printed.spread:.2f}" if printed else ""
