"""The sentences of a certificate. Part of its format: writer and verifier both hold to them."""

from collections.abc import Iterable

from datalens.privacy.rounding import rounded_up

FORMAT = "datalens-certificate-3"
NOT_PRIVATE = "NOT PRIVATE"

RELATION = (
    "Two collections are neighbours if one record is blanked in place, so that it adds nothing to"
    " any sum and teaches no teacher; the number of records is public. epsilon_replace is the"
    " certified epsilon if a record is replaced by any other, a black image for example."
)

GAUSSIAN_IS = "for comparison only: no bound for discrete noise"

COVERS = "the number of right answers; the classifier's own privacy is that of what it learned from"
"""What the epsilon of a private validation is about."""

SOURCES = {
    "exact": "exact discrete Gaussian on integers, from the operating system's randomness",
    "float-secure": (
        "floating-point Gaussian, from the operating system's randomness, whose proof is about real"
        " numbers: what the last bits of a floating-point number may tell is mitigated, not proven"
    ),
    "seeded": "a seed, which anyone may know: this run is NOT PRIVATE",
    "none": "there is none: this run is NOT PRIVATE",
}
PRIVATE_KINDS = ("exact", "float-secure")
"""Noise that protects."""


def source(noise: str, events: Iterable[str] = ()) -> str:
    """Where the noise came from, and its shape in releases of these kinds."""
    shapes = {"Laplace" if kind == "laplace" else "Gaussian" for kind in events}
    return SOURCES[noise].replace("Gaussian", " and ".join(sorted(shapes)) or "Gaussian")


def statement(
    *,
    private: bool,
    epsilon: float | None,
    delta: float | None,
    records: int,
    noise: str,
    events: Iterable[str] = (),
) -> str:
    """What the certificate says, of releases of these kinds. Only without noise there is no
    epsilon and no delta. Both are rounded up, for they are the most that was spent."""
    spent = ""
    if epsilon is not None and delta is not None:
        spent = f"{rounded_up(epsilon)}, {rounded_up(delta, 6)}"
    if noise == "none":
        return (
            f"{NOT_PRIVATE}. Nothing was protected: this method learns from the {records} records"
            " as they are, and what it makes may show any of them."
        )
    if not private:
        return (
            f"{NOT_PRIVATE}. The noise came from a seed, so this run protects nobody; the"
            " figures say what it would have cost with noise that nobody can tell."
        )
    return (
        f"What this run publishes is ({spent})-differentially private with"
        f" respect to each of the {records} records: whether it was there or blank. Noise:"
        f" {source(noise, events)}."
    )


def if_replaced(epsilon: float) -> str:
    """What is added to a statement for those who think of records as exchanged."""
    return f"If a record is replaced: epsilon {rounded_up(epsilon)}."
