"""The sentences of a certificate. Part of its format: writer and verifier both hold to them."""

FORMAT = "datalens-certificate-2"
NOT_PRIVATE = "NOT PRIVATE"

RELATION = (
    "Two collections are neighbours if one record is blanked in place, so that it adds nothing to"
    " any sum and teaches no teacher; the number of records is public. epsilon_replace is the"
    " certified epsilon if a record is replaced by any other, a black image for example."
)

GAUSSIAN_IS = "for comparison only: no bound for discrete noise"

SOURCES = {
    "exact": "exact discrete Gaussian on integers, from the operating system's randomness",
    "float-secure": "floating-point Gaussian, from the operating system's randomness",
    "seeded": "a seed, which anyone may know: this run is NOT PRIVATE",
}


def statement(*, private: bool, epsilon: float, delta: float, records: int, noise: str) -> str:
    """What the certificate says, in one sentence."""
    if not private:
        return (
            f"{NOT_PRIVATE}. The noise came from a seed, so this run protects nobody; the"
            f" figures say what it would have cost with {SOURCES['exact']}."
        )
    return (
        f"What this run publishes is ({epsilon:.4g}, {delta:g})-differentially private with"
        f" respect to each of the {records} records. Noise: {SOURCES[noise]}."
    )
