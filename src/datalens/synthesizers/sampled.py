"""Steps on random parts of the records: what each costs, so that all stay within a budget."""

from collections.abc import Sequence

from datalens.data import PublicFacts
from datalens.errors import DataLensError
from datalens.mechanism.events import SampledGaussianRelease
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.calibration import noise_multiplier_for
from datalens.synthesizers.settings import Budget

LEAST_DELTA = 1e-10
"""The smallest for which the verifier can follow a privacy loss."""


def sampled_step(
    what: str,
    budget: Budget,
    public: PublicFacts,
    *,
    batch_size: int,
    steps: int,
    noise_multiplier: float | None,
    beside: Sequence[Charge] = (),
) -> SampledGaussianRelease:
    """One step of so many, at the noise that was asked for, or at the least the budget allows.

    That is, together with what is bought `beside` them.
    """
    if batch_size > public.n_records:
        raise DataLensError(
            f"batch_size is {batch_size} but there are only {public.n_records} records; use fewer."
        )
    if budget.accountant == "pld" and budget.delta < LEAST_DELTA:
        raise DataLensError(
            f"The accountant pld is verified for a delta of at least {LEAST_DELTA:g}, got"
            f" {budget.delta:g}; use the accountant certified."
        )
    q = batch_size / public.n_records
    multiplier = noise_multiplier or noise_multiplier_for(
        budget.epsilon,
        budget.delta,
        sampling_probability=q,
        steps=steps,
        accountant=budget.accountant,
        beside=beside,
    )
    event = SampledGaussianRelease(what=what, sampling_probability=q, noise_multiplier=multiplier)
    charges = [*beside, Charge(event=event, count=steps)]
    if epsilon(charges, budget.delta, budget.accountant) > budget.epsilon:
        raise DataLensError(
            f"noise_multiplier {multiplier:g} is too little for {steps} steps within"
            f" epsilon {budget.epsilon:g}; leave it out, or lower steps or batch_size."
        )
    return event
