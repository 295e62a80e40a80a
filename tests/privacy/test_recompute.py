"""The verifier's closed forms against the accountants: two derivations, one figure."""

import pytest

from datalens.mechanism.events import GaussianRelease, SampledGaussianRelease
from datalens.privacy.accountants import Charge, epsilon
from datalens.privacy.recompute import certified, curve, largest_order, paper


def sampled(q: float, z: float, count: int) -> Charge:
    event = SampledGaussianRelease(what="dp-sgd", sampling_probability=q, noise_multiplier=z)
    return Charge(event=event, count=count)


def plain(sigma: float) -> Charge:
    event = GaussianRelease(
        what="class-counts", squared_sensitivity=1, squared_sensitivity_replace=2, sigma=sigma
    )
    return Charge(event=event, count=1)


@pytest.mark.parametrize(
    "charges",
    [
        [plain(3.0)],
        [sampled(0.002, 1.1, 10_000)],
        [sampled(0.01, 0.6, 500)],
        [sampled(1.0, 5.0, 30)],
        [sampled(0.004, 1.3, 2000), plain(20.0)],
        [sampled(0.3, 0.3, 1)],
    ],
)
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_as_the_accountants_have_it(charges: list[Charge], delta: float) -> None:
    told = [charge.to_json() for charge in charges]
    largest = largest_order(told)
    pairs = {
        "certified": (certified(curve(told), delta, largest=largest), epsilon(charges, delta)),
        "paper": (
            paper(curve(told), delta, largest=largest),
            epsilon(charges, delta, "paper"),
        ),
        "replaced": (
            certified(curve(told, replaced=True), delta, largest=largest),
            epsilon(charges, delta, "certified", "replaced"),
        ),
    }
    for name, (ours, theirs) in pairs.items():
        # The accountant's grid of orders is coarser, which errs on the safe side.
        assert ours * (1 - 1e-4) <= theirs <= ours * 1.05 + 1e-3, name


def test_another_sampling_rate_or_noise_is_another_figure() -> None:
    """The control: the comparison above would see an error of a few per cent."""
    told = [sampled(0.002, 1.1, 10_000).to_json()]
    largest = largest_order(told)
    true = certified(curve(told), 1e-5, largest=largest)
    for wrong in (sampled(0.0021, 1.1, 10_000), sampled(0.002, 1.05, 10_000)):
        assert epsilon([wrong], 1e-5) > true * 1.03


def test_what_would_take_for_ever_is_refused() -> None:
    with pytest.raises(ValueError, match="no noise"):
        largest_order([sampled(0.1, 1e-6, 1).to_json()])
    with pytest.raises(ValueError, match="kinds"):
        curve([sampled(0.1, 1 + n / 100, 1).to_json() for n in range(30)])
