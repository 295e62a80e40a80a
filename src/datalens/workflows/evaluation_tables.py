"""What `datalens evaluate` shows on the terminal."""

from typing import Any

from datalens.workflows.bench.tables import Rows

LEGEND = (
    "Accuracy: share of real images put into the right class, last epoch. Inception Score: 1"
    " to the number of classes, more is better. FID: less is better. Density may exceed 1."
)
INTERNAL = (
    "Internal: these figures were computed on real records without noise. Do not publish them."
)


def evaluation_tables(result: dict[str, Any]) -> dict[str, Rows]:
    """Title, heads and rows of each table; those without figures are left out."""
    found: dict[str, Rows] = {
        "Accuracy, having learned from synthetic or from real images": _classifiers(
            result["classifiers"]
        ),
        "Accuracy by class": _classes(result["classifiers"]),
    }
    if result["measures"]:
        found["Beside real images"] = (["", ""], _measures(result))
    if result["nearest"]:
        found["Distance to the nearest training record, by percentile"] = _nearest(
            result["nearest"]
        )
    if result["membership"]:
        found["Who was in the training data? An area of 0.5 is a blind guess"] = _attacks(
            result["membership"]
        )
    return found


def _classifiers(judged: dict[str, dict[str, Any]]) -> Rows:
    heads = ["classifier", "synthetic", "images", "real", "images"]
    rows = []
    for name, by in judged.items():
        row = [name]
        for figures in (by["synthetic"], by["real"]):
            row += _accuracy(figures) if figures else ["", ""]
        rows.append(row)
    return heads, rows


def _accuracy(figures: dict[str, Any]) -> list[str]:
    spread = figures["accuracy_spread"]
    shown = f"{figures['accuracy']:.4f}" + ("" if spread is None else f" ± {spread:.4f}")
    return [shown, f"{figures['training_images']:,}"]


def _classes(judged: dict[str, dict[str, Any]]) -> Rows:
    by_class = {name: by["synthetic"]["per_class"] for name, by in judged.items()}
    names = next(iter(by_class.values()))
    return (
        ["class", *by_class],
        [[name, *(share(shares[name]) for shares in by_class.values())] for name in names],
    )


def share(value: float | None) -> str:
    """Of a class without test images there is none."""
    return "none" if value is None else f"{value:.3f}"


def _measures(result: dict[str, Any]) -> list[list[str]]:
    measures, domain = result["measures"], result["domain"]
    far = measures["fid_infinite"]
    infinite = "" if far is None else f"; {far:.2f} if followed to ever more images"
    by = f"domain classifier of {domain['training_images']:,} real images"
    by += f", {domain['accuracy']:.4f} accurate on others"
    drawn, real = measures["synthetic_images"], measures["real_images"]
    return [
        ["Inception Score", f"{measures['inception_score']:.3f}, by the {by}"],
        ["FID", f"{measures['fid']:.2f} of {measures['fid_images']:,} images each{infinite}"],
        *([name, f"{value:.3f}"] for name, value in measures["prdc"].items()),
        ["features", f"{measures['features']}, {measures['dimensions']:,} dimensions"],
        ["images", f"{drawn:,} synthetic, {real:,} real"],
    ]


def _nearest(figures: dict[str, Any]) -> Rows:
    percentiles = list(figures["synthetic"])
    rows = [
        [name, *(f"{figures[key][p]:.2f}" for p in percentiles)]
        for name, key in (("synthetic images", "synthetic"), ("held-out records", "held_out"))
    ]
    copies = f"{figures['copies']} are copies"
    return ["", *percentiles], [*rows, [copies, *[""] * len(percentiles)]]


def _attacks(attacks: list[dict[str, Any]]) -> Rows:
    return (
        ["attack", "area", "interval of 95 %", "without\nsamples", "found at 1 %\nfalse alarms"],
        [
            [
                attack["attack"],
                f"{attack['auc']:.3f}",
                "{:.3f} to {:.3f}".format(*attack["auc_interval"]),
                f"{attack['control_auc']:.3f}",
                f"{attack['hits_at_one_percent']:.3f}",
            ]
            for attack in attacks
        ],
    )
