"""What a method of your own is made of. docs/extending.md shows one."""

from datalens.data import PublicFacts, Records
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.mechanism.gradients import GradientSums
from datalens.mechanism.moments import ClassCounts, ClassSums, SecondMoments
from datalens.privacy.accountants import Charge
from datalens.privacy.calibration import budget_rho, sigma_for
from datalens.synthesizers.plan import Plan
from datalens.synthesizers.protocol import Drawn, Synthesizer
from datalens.synthesizers.session import Member
from datalens.synthesizers.settings import Settings

__all__ = [
    "Charge",
    "ClassCounts",
    "ClassSums",
    "DataLensError",
    "Drawn",
    "GradientSums",
    "Member",
    "Plan",
    "PublicFacts",
    "Records",
    "SecondMoments",
    "Settings",
    "Synthesizer",
    "budget_rho",
    "sigma_for",
    "stream",
]
