"""What one release with Laplace noise costs, at any Renyi order.

Noise of scale b on what moves by at most s in all is e-differentially private with e = s / b,
discrete or continuous. Among all such mechanisms none has a larger Renyi divergence, at any order
a, than randomised response, which answers truly with odds of exp(e) to 1:

    D_a = log[(sinh(a e) - sinh((a - 1) e)) / sinh(e)] / (a - 1).

Discrete Laplace noise on one integer that moves by 1 attains it: seen from either value, every
outcome is exp(e) times likelier or less likely than seen from the other.
"""

import numpy as np

from datalens.mechanism.events import LaplaceRelease
from datalens.privacy.sampling import Curve, Relation


def pure_epsilon(event: LaplaceRelease, relation: Relation = "blanked") -> float:
    """The epsilon that one release has at delta 0."""
    blanked = relation == "blanked"
    return (event.sensitivity if blanked else event.sensitivity_replace) / event.scale


def laplace_renyi(event: LaplaceRelease, orders: Curve, relation: Relation = "blanked") -> Curve:
    """A bound on the Renyi divergence of one release, at each of `orders` (all above 1).

    With u = e / 2 and v = (a - 1) e the fraction above is cosh(v) + tanh(u) sinh(v): no
    difference is left that could cancel, and for large v the exponent is taken out of the log.
    """
    e = pure_epsilon(event, relation)
    v, t = (orders - 1) * e, np.tanh(e / 2)
    small = np.minimum(v, 1.0)
    near = np.log1p(2 * np.sinh(small / 2) ** 2 + t * np.sinh(small))
    far = v + np.log((1 + t) / 2 + (1 - t) / 2 * np.exp(-2 * v))
    curve: Curve = np.where(v < 1, near, far) / (orders - 1) * (1 + 1e-12)  # over, not under
    return curve
