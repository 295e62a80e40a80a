"""What `datalens plan` shows: the facts it goes by, the table, the sentence, the plot."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from datalens.data import PublicFacts, catalogue, describe, holds_pictures, is_folder
from datalens.data.records import declared_classes
from datalens.data.resizing import check_image_size
from datalens.errors import DataLensError
from datalens.planning.planner import SHOWN, Option, Outlook, option
from datalens.privacy.accountants import epsilon
from datalens.privacy.rounding import rounded_up
from datalens.synthesizers.cautions import Caution
from datalens.synthesizers.plan import VotingPlan
from datalens.workflows.bench.tables import Rows
from datalens.workflows.curves import Panel, svg
from datalens.workflows.source import Source
from datalens.workflows.suggesting import command

POINTS = 30
"""Of a curve."""
UNNAMED = "records"
"""What is known by no name, as a reader's own."""


def declared(
    *, records: int | None, shape: str | None, classes: int | None, image_size: int | None
) -> PublicFacts:
    """What the user says of data that are nowhere named."""
    if records is None or shape is None or classes is None:
        raise DataLensError("Name a data set, or give --records, --shape and --classes.")
    public = PublicFacts(
        name=UNNAMED,
        n_records=records,
        shape=_shape(shape),
        class_names=declared_classes(classes, None),
    )
    return _sized(public, image_size)


def facts_of(
    source: Source, *, records: int | None = None, shape: str | None = None
) -> PublicFacts:
    """As published with a data set, or by the names of files and the headers of arrays.

    No picture is opened, and no record is read.
    """
    name = source.name
    if name in [known.name for known in catalogue()]:
        given = {"--shape": shape, "--classes": source.n_classes, "--grey/--colour": source.colour}
        if told := [option for option, value in given.items() if value is not None]:
            raise DataLensError(f"The images of {name} are known: leave out {', '.join(told)}.")
        return _sized(_published(name, records), source.image_size)
    if holds_pictures(name) and not is_folder(name):
        own = command("plan", "--records", "N", "--shape", "CxHxW", "--classes", "N")
        raise DataLensError(
            f"{name} is a table, which plan does not open: say what is in it, as {own} --epsilon E."
        )
    if records is not None or shape is not None:
        raise DataLensError(f"The files of {name} are counted: leave out --records and --shape.")
    return source.count()


def _sized(public: PublicFacts, image_size: int | None) -> PublicFacts:
    if image_size is None:
        return public
    check_image_size(image_size)
    return replace(public, shape=(public.shape[0], image_size, image_size))


def _published(dataset: str, records: int | None) -> PublicFacts:
    known = describe(dataset)
    published = known.n_records
    if records is None and published is None:
        raise DataLensError(f"How many records {dataset} has is not published; give --records.")
    if records is not None and published is not None and records > published:
        raise DataLensError(
            f"{dataset} has {published:,} records; --records is for a part of them, got {records}."
        )
    count = published if records is None else records
    return PublicFacts(
        name=dataset if published in (None, count) else UNNAMED,  # a part of it is a reader's own
        n_records=count or 0,
        shape=known.shape,
        class_names=known.class_names,
        why=known.public,
    )


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise DataLensError(f"--shape is CHANNELSxHEIGHTxWIDTH, such as 1x28x28, got {text!r}.")
    channels, height, width = (int(part[:9]) for part in parts)
    return channels, height, width


ACCOUNTANTS = {
    "pld": "by privacy loss",
    "certified": "certified",
    "paper": "by the paper's Theorem 3",
    "gaussian": "if noise were continuous (no bound)",
}


def tables(found: Outlook) -> dict[str, Rows]:
    """One row an option, by number; how they vote, for those that do; what they cost, by
    each accountant."""
    told = [each.to_json() for each in found.options]
    public, budget = found.public, found.best.plan.settings
    title = (
        f"{public.n_records:,} records of {'x'.join(map(str, public.shape))}, {public.n_classes}"
        f" classes, epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    )
    heads = ["", "datalens fit ...", "judge %", "S/N", "releases", "time", "GiB"]
    votes = ["", "teachers", "shard", "k", "sigma", "beta", "steps", "agree", "false", "missed"]
    return {
        title: (heads, [_expected(i, each) for i, each in enumerate(told, 1)]),
        "Votes": (
            votes,
            [_votes(i, each) for i, each in enumerate(told, 1) if each["teachers"]],
        ),
        "Epsilon by accountant": (
            ["", *(ACCOUNTANTS[name] for name in SHOWN)],
            [
                [str(i), *(rounded_up(each.epsilon[name]) for name in SHOWN)]
                for i, each in enumerate(found.options, 1)
            ],
        ),
    }


def _expected(number: int, told: dict[str, Any]) -> list[str]:
    seconds = told["seconds"]
    return [
        str(number),
        told["options"] or "(nothing: auto)",
        f"{100 * told['predicted_accuracy']:.0f}",
        f"{told['signal_to_noise']:.2g}",
        f"{told['releases']:,}",
        "" if seconds is None else _duration(seconds),
        f"{told['memory_bytes'] / 2**30:.2f}",
    ]


def _votes(number: int, told: dict[str, Any]) -> list[str]:
    return [
        str(number),
        f"{told['teachers']:,}",
        f"{told['shard']:,}",
        str(told["top_k"]),
        f"{told['sigma']:.4g}",
        f"{told['quorum']:.2g}",
        str(told["steps"]),
        f"{told['agreement']:.2f}",
        f"{100 * told['false_directions']:.0f} %",
        f"{100 * told['missed_directions']:.0f} %",
    ]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def warnings(found: Outlook) -> list[str]:
    """Each once, with the options it is about; where particulars differ, those of the first."""
    about: dict[str, dict[int, Caution]] = {}
    for number, each in enumerate(found.options, 1):
        for caution in each.cautions:
            about.setdefault(caution.what, {})[number] = caution
    return [
        f"Careful with {_spoken(list(by_option))}: {_together(by_option)}"
        for by_option in about.values()
    ]


def _together(by_option: dict[int, Caution]) -> str:
    number, first = next(iter(by_option.items()))
    if len(set(by_option.values())) == 1:
        return str(first)
    return f"{first.what}. Of {number}: {first.why}."


def _spoken(numbers: list[int]) -> str:
    """1, 2, 3, 5 as "1 to 3, 5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def verdict(found: Outlook, source: Source | None = None) -> str:
    """What a user should take away, in a sentence or two."""
    best = found.best
    if not found.useful:
        words = "No useful images will come out of this: the noise would hide every class."
    elif found.needed_records or found.needed_epsilon:
        words = "Poor images will come out of this."
    else:
        budget = f"--epsilon {best.plan.settings.epsilon:g} --delta {best.plan.settings.delta:g}"
        if best.plan.settings.delta > 1 / found.public.n_records:
            budget += " --allow-large-delta"
        words = command("fit", *_fitted(found.public, source))
        grey = source is None and found.public.shape[0] == 1
        more = "   (and --grey, if DATA is a folder or table)" if grey else ""
        return f"Go on with: {words} {budget} {best.words}".rstrip() + more
    needed = []
    if found.needed_records:
        needed.append(f"about {found.needed_records:,} records at this epsilon")
    if found.needed_epsilon:
        needed.append(f"epsilon {rounded_up(found.needed_epsilon)} with these records")
    return f"{words} It would take {' or '.join(needed) or 'more than any we can count'}."


def _fitted(public: PublicFacts, source: Source | None) -> list[str]:
    """Words after `datalens fit` that lead to these very facts."""
    if source is not None:
        name = "DATA" if public.name == UNNAMED else source.name
        return [name, *source.options]
    _, height, width = public.shape  # a folder's pictures would be brought to another size
    return ["DATA", *(["--image-size", str(height)] if height == width else [])]


def plot(found: Outlook, path: Path) -> None:
    """What votes alone should give at each k, and what their steps cost."""
    budget = found.best.plan.settings.budget
    votes = option("datalens", {"warm_start": False}, found.public, budget)
    try:
        path.write_text(svg([_over_k(found, budget), _over_steps(votes)]))
    except OSError as error:
        raise DataLensError(f"--plot cannot write {path} ({error.strerror}).") from None


def _over_k(found: Outlook, budget: dict[str, Any]) -> Panel:
    values = math.prod(found.public.shape)
    tried = sorted({int(k) for k in np.geomspace(1, values, POINTS)})
    alone = [
        option("datalens", {"warm_start": False, "top_k": k}, found.public, budget) for k in tried
    ]
    return Panel(
        title="What to expect",
        x_label="k",
        y_label="predicted accuracy",
        x=tried,
        lines={
            f"best: {found.best.words or 'auto'}": [found.best.prediction.accuracy] * len(tried),
            "votes alone": [each.prediction.accuracy for each in alone],
        },
        logarithmic=True,
    )


def _over_steps(votes: Option) -> Panel:
    plan = votes.plan
    if not isinstance(plan, VotingPlan):
        raise TypeError("votes alone are a plan with votes")
    steps = sorted({round(s) for s in np.linspace(0, plan.steps, POINTS)})
    return Panel(
        title=f"Cost of votes alone: sigma {plan.topagg.sigma:g}, k {plan.settings.top_k}",
        x_label="steps",
        y_label="epsilon",
        x=steps,
        lines={
            name: [epsilon(plan.charges_after(s), plan.settings.delta, name) for s in steps]
            for name in SHOWN
        },
    )
