"""The certificate in words that need no mathematics to read."""

import math
from typing import Any, NamedTuple

from datalens.privacy.rounding import rounded_up, up_to_places
from datalens.workflows.report.page import bound, odds
from datalens.workflows.report.published import Published

RELEASES = {
    "class-counts": "how many records each class has",
    "class-sums": "the sum of all images of a class, which gives their average",
    "second-moments": "how brightness at one place goes with brightness at another",
    "cluster-sums": "where groups of similar images lie within a class",
    "cluster-moments": "how images differ within those groups",
    "gradient-sums": "the training of a small model that says what a synthetic image shows",
    "feature-sums": "averages of many features of the images of a class",
    "votes": "how teachers want a synthetic image to change",
    "rotated-votes": "how teachers want a synthetic image to change",
    "sketched-votes": "how teachers want a synthetic image to change",
    "binned-votes": "how teachers want a synthetic image to change",
    "vote-checks": "whether teachers agree on a synthetic image",
    "real-votes": "how many teachers take a synthetic image for a real one",
    "dp-sgd": "a step of training on a random part of the records",
    "topagg-sgd": "a step of training on a random part of the records, its main part only",
    "drawn-critic": "how one teacher, drawn in secret, wants a synthetic image to change",
}
"""What is behind the names of releases."""

ACCOUNTANTS = {
    "pld": "epsilon, by its privacy loss",
    "certified": "epsilon, certified",
    "paper": "epsilon, by the paper's theorem",
    "gaussian": "epsilon, Gaussian: for comparison, no bound",
}
"""What a certificate's epsilons are called."""


MOST_PLACES = 3
"""Digits after the point of a per cent that people still read."""
RAREST = 1e-12
"""A chance of being wrong that is none."""


class Answer(NamedTuple):
    question: str
    answer: str


def answers(run: Published) -> list[Answer]:
    """What a run promises, what that means, and what it does not mean."""
    certificate = run.certificate
    first = [_promise(run), _means(run)] if certificate["private"] else [_no_promise(certificate)]
    return [*first, _who(run), _public(certificate["data"]), _beside(run), _check()]


def right_at_most(epsilon: float, delta: float) -> float:
    """How often the best adversary is right who is asked, at even odds, in which of two worlds
    they are that differ in one record: (e^epsilon + delta) / (1 + e^epsilon)."""
    return (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))


def _promise(run: Published) -> Answer:
    certificate, epsilon = run.certificate, run.sizing or 0.0
    return Answer(
        "What is promised?",
        "A limit on how much any one record can show. Had that record been left blank, whatever"
        f" this run publishes would have been at most {_factor(epsilon)} times as likely or as"
        f" unlikely; the factor is e to the power of epsilon, {bound(epsilon)}. Beyond that"
        f" there is a remainder of {odds(certificate['delta'])}, which is delta."
        f" The noise that hides the record: {certificate['noise']['source']}.",
    )


def _factor(epsilon: float) -> str:
    """e to the power of epsilon, rounded up, as far as it can be written out."""
    if epsilon < 7:
        return rounded_up(math.exp(epsilon))
    if epsilon < 30:
        return bound(math.exp(epsilon))
    return f"10 to the power of {math.ceil(epsilon / math.log(10)):,}"


def _means(run: Published) -> Answer:
    epsilon, delta = run.sizing or 0.0, run.certificate["delta"]
    return Answer(
        "What does that mean for one person?",
        "Imagine somebody who knows every other record, has everything that was published, and"
        " is to say whether one certain image was among the records. A guess is right half of the"
        f" time. This promise lets them be right {_often(epsilon, delta)}; an"
        f" epsilon of 1 would let them be right {_often(1.0, delta)}, and the"
        " smaller epsilon, the nearer to a guess. This bounds the strongest adversary there can"
        " be. It does not say what a real one achieves.",
    )


def _often(epsilon: float, delta: float) -> str:
    """Rounded up, for it is said to be the most; with as many digits as it takes not to be 100 %.

    Where those are too many to read it is told by how rarely the adversary is wrong.
    """
    share = 100 * right_at_most(epsilon, delta)
    for places in range(1, MOST_PLACES + 1):
        if float(shown := up_to_places(share, places)) < 100:
            return f"at most {shown} % of the time"
    wrong = (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    if wrong < RAREST:
        return "as good as always"
    times = int(up_to_places(1 / wrong, 0))
    return f"at most {times - 1:,} times in {times:,}"


def _no_promise(certificate: dict[str, Any]) -> Answer:
    return Answer(
        "What is promised?",
        "Nothing. This run protects nobody, and what it made should be treated like the records"
        f" themselves. {certificate['statement']}",
    )


def _who(run: Published) -> Answer:
    certificate = run.certificate
    records = certificate["data"]["n_records"]
    answer = (
        f"Each of the {records:,} records by itself. A record is one image: a person who is in"
        " the collection ten times is ten records, and protected less."
    )
    if not certificate["private"]:
        answer = f"None of the {records:,} records."
    elif certificate["epsilon_replace"] is not None:
        answer += (
            " If a record is thought of as exchanged for another, not as left blank, epsilon is"
            f" {bound(certificate['epsilon_replace'])}."
        )
    return Answer("Who is protected?", answer)


def _public(data: dict[str, Any]) -> Answer:
    channels, height, width = data["shape"]
    colours = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
    classes = len(data["classes"])
    return Answer(
        "What did the owner declare public?",
        f"The name of the collection, {data['name']}; that it has {data['n_records']:,} records"
        f" in {classes} classes, and the names of those; and that images are of {height} by"
        f" {width} pixels, {colours}.",
    )


def _beside(run: Published) -> Answer:
    others = "no entry of any other run"
    if run.entries_before:
        others = f"{run.entries_before:,} entries of other runs, or of its owner"
    return Answer(
        "What is not promised?",
        "What is true of many records, such as how a class looks, is meant to be seen. Other"
        " runs on the same records cost privacy of their own, which adds up: when this one began"
        f" the records' ledger held {others}. That this program worked on these"
        " records rests on the owner's word. Whether all this suffices in law is for you to"
        " judge; this page states mathematical facts.",
    )


def _check() -> Answer:
    return Answer(
        "How can I trust these figures?",
        "You need not. Anyone can compute them again from the published files, without the"
        " records; how, is said below.",
    )
