"""What all sums over records have in common: one release, noise on every entry, a price."""

from datalens.mechanism.events import GaussianRelease, positive
from datalens.mechanism.noise import Integers, Noise, Shape


class NoisySum:
    """A sum over all records that is released whole, with noise of `sigma` on every entry."""

    sigma: float

    def releases_in(self, total: Integers) -> int:
        return 1

    def draw(self, shape: Shape, *, noise: Noise, key: str) -> Integers:
        return noise.draw(shape, sigma=self.sigma, key=key)


def sum_event(what: str, squared: int, sigma: float) -> GaussianRelease:
    """The price of a sum to which a record adds a vector of squared norm at most `squared`.

    Blanked, it takes that vector away; replaced, it moves the sum by at most twice its length.
    """
    positive(squared=squared, sigma=sigma)
    return GaussianRelease(
        what=what,
        squared_sensitivity=squared,
        squared_sensitivity_replace=4 * squared,
        sigma=sigma,
    )
