"""The methods by name: those in this package, and those that other packages bring.

Another package brings one with an entry point in the group `datalens.methods`, whose name is the
method's. It is imported when it is first asked for, so one that is broken harms no other.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from datalens.errors import DataLensError, brief
from datalens.synthesizers.class_gaussian import ClassGaussian
from datalens.synthesizers.datalens import DataLens
from datalens.synthesizers.dcgan import DcGan
from datalens.synthesizers.dp_merf import DPMerf
from datalens.synthesizers.dpgan import DpGan
from datalens.synthesizers.gpate import GPate
from datalens.synthesizers.gswgan import GsWgan
from datalens.synthesizers.pategan import PateGan
from datalens.synthesizers.protocol import Synthesizer

GROUP = "datalens.methods"
OWN: tuple[type[Synthesizer], ...] = (
    DataLens,
    ClassGaussian,
    DPMerf,
    PateGan,
    GPate,
    GsWgan,
    DpGan,
    DcGan,
)


class Methods(Mapping[str, type[Synthesizer]]):
    """Ours first. A name of ours is ours: nobody else's method answers to it."""

    def __init__(self) -> None:
        self._known = {method.method: method for method in OWN}

    def __getitem__(self, name: str) -> type[Synthesizer]:
        if name not in self._known:
            self._known[name] = _loaded(_others()[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        ours = [method.method for method in OWN]
        return iter([*ours, *sorted(set(_others()) - set(ours))])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))


def _others() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(point: EntryPoint) -> type[Synthesizer]:
    try:
        method = point.load()
    except Exception as error:  # of somebody else's code
        raise DataLensError(
            f"The method {point.name} of {point.value} cannot be loaded ({brief(error)})."
        ) from None
    if not (isinstance(method, type) and issubclass(method, Synthesizer)):
        raise DataLensError(f"The method {point.name} of {point.value} is no Synthesizer.")
    if method.method != point.name:
        raise DataLensError(
            f"The method {point.name} of {point.value} calls itself {method.method!r}."
        )
    return method


METHODS: Mapping[str, type[Synthesizer]] = Methods()
