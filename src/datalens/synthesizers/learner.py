"""What every method does that learns from records: fit, certificate, save, load."""

import hashlib
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from reprlib import repr as shown
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import load, save

from datalens.data import Positions, PublicFacts, Records
from datalens.data.documents import read_json, read_toml, read_whole, reading
from datalens.ensemble import Ranks
from datalens.errors import DataLensError
from datalens.privacy.certificate import Product, certificate_sha256, issue, json_bytes
from datalens.privacy.chain import FORMAT as LEDGER_FORMAT
from datalens.privacy.ledger import ledger_name_for
from datalens.privacy.signing import LONGEST_SIGNATURE, SIGNATURE, signed
from datalens.privacy.verify import contradictions
from datalens.synthesizers.frozen import FrozenPlan
from datalens.synthesizers.session import Member, Session, ledger_of_run, temporary_session
from datalens.synthesizers.settings import Budget, checked

MAX_PRODUCT = 256 * 2**20
"""Bytes of a generator's or classifier's file: the largest that settings allow, and more."""


P = TypeVar("P", bound=FrozenPlan)


class Learner(ABC, Generic[P]):
    """A method that turns private records into something that may be published.

    Guarantee: everything that leaves `fit` (the product and the certificate) is computed from
    releases bought through the ledger and from public facts, and costs at most `epsilon` at
    `delta`, unless a seed was given or the method is not `private`: then the run is marked
    NOT PRIVATE.
    """

    method: ClassVar[str]
    product: ClassVar[Product]
    """What it makes, which PRODUCT.safetensors holds."""
    settings_type: ClassVar[type[Budget]]
    about: ClassVar[str]
    """What it does, in a line."""
    source: ClassVar[str]
    """The paper it comes from."""
    accounting: ClassVar[str] = "zero-concentrated, exact discrete Gaussian noise"
    """How its cost is added up."""
    private: ClassVar[bool] = True
    """Whether it protects anybody; one that does not is marked NOT PRIVATE wherever it goes."""
    needs_labels: ClassVar[bool] = True
    many_ranks: ClassVar[bool] = True
    """Whether several machines can share the work."""

    def __init__(self, /, **settings: Any) -> None:
        """Keyword-only settings; see `settings_type` for their names and meaning."""
        self.settings: Budget = checked(self.settings_type, settings)
        self._certificate: dict[str, Any] | None = None
        self._extract: list[dict[str, Any]] = []
        self._signature = ""
        self.plan: P | None = None

    @abstractmethod
    def resolve(self, public: PublicFacts) -> P:
        """Fix every number from settings and public facts, before any record is seen."""

    def share(self, public: PublicFacts, ranks: Ranks, secret: bytes) -> Positions:
        """The positions of the records that this rank is to hold, ascending: each is held once."""
        return self._share(self.resolve(public), ranks, secret)

    def _share(self, plan: P, ranks: Ranks, secret: bytes) -> Positions:
        if ranks.size > 1 and not self.many_ranks:
            raise DataLensError(f"{self.method} runs in one process; start it without torchrun.")
        if ranks.size > plan.public.n_records:
            raise DataLensError(
                f"{plan.public.n_records} records cannot be divided over {ranks.size} ranks; use"
                " fewer."
            )
        return np.arange(ranks.rank, plan.public.n_records, ranks.size)

    def _own(self, records: Records, plan: P, session: Member) -> Records:
        """The records of this rank and no others: one that two ranks add up counts twice."""
        if session.ranks.size == 1 and records.positions is None:
            return records
        share = self._share(plan, session.ranks, session.secret)
        if records.positions is None:
            return records.only(share)
        if not np.array_equal(records.positions, share):
            raise DataLensError(
                f"These records of {records.public.name} are not the share of rank"
                f" {session.ranks.rank} of {session.ranks.size}; give all of them, or that share."
            )
        return records

    @abstractmethod
    def _train(self, records: Records, plan: P, session: Member) -> None:
        """Learn from this rank's records, through `session.releases` only."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """What the product is made of."""

    @abstractmethod
    def _take_arrays(self, arrays: dict[str, NDArray[Any]], plan: P) -> None:
        """The inverse of `_arrays`."""

    def _contents(self) -> dict[str, NDArray[Any]]:
        """What the product's file holds."""
        return self._arrays()

    def _take_contents(self, contents: dict[str, NDArray[Any]], plan: P) -> None:
        """The inverse of `_contents`."""
        if not all(a.dtype == np.float32 and np.isfinite(a).all() for a in contents.values()):
            raise DataLensError("its weights are not all finite float32 numbers.")
        self._take_arrays(contents, plan)

    def fit(
        self,
        records: Records | ArrayLike,
        labels: ArrayLike | None = None,
        *,
        n_classes: int | None = None,
        ledger: str | None = None,
        seed: int | None = None,
        refit: bool = False,
        allow_large_delta: bool = False,
        session: Member | None = None,
        publish: Callable[[], Mapping[str, str]] = dict,
    ) -> Self:
        """Spend the budget on these records.

        Give `Records`, or images and labels as arrays with the public number of classes.
        `ledger` names the ledger that is charged (the data's name by default). A `seed` makes
        the run reproducible and NOT PRIVATE. Cautions are raised as `DataLensWarning` before
        anything is spent.

        An object that is fitted, or was loaded, refuses to be fitted: with `refit` it spends a
        second budget. A `delta` above 1 / number of records is refused, unless there is a seed or
        `allow_large_delta`.

        `session` continues or records a run in a folder, and says what `ledger`, `seed` and
        `allow_large_delta` would; where it is that of one of several ranks, only this rank's share
        of the records is used, and rank 0 certifies. `publish` is called when the product is there
        and before the run is settled: it may write more files, and returns the SHA-256 of each by
        its name.
        """
        if self.plan is not None and not refit:
            raise DataLensError(
                "This object is fitted already, and fitting it again spends a second budget: make"
                " a new one, or call fit with refit=True."
            )
        if not isinstance(records, Records):
            if labels is None:
                raise DataLensError("fit needs Records, or images and labels.")
            records = Records.from_arrays(records, labels, n_classes=n_classes)
        plan = self.resolve(records.public)
        lasting = nullcontext(session) if session else None
        with lasting or temporary_session(
            ledger=ledger or ledger_name_for(records.public.name),
            named=ledger is not None,
            seed=seed,
            private=self.private,
            allow_large_delta=allow_large_delta,
        ) as run:
            own = self._own(records, plan, run)
            run.recognise(own)
            run.reserve(plan, own)
            self.plan = plan  # who watches may draw from what there is so far
            try:
                self._train(own, plan, run)
            except BaseException:
                self.plan = None
                raise
            if isinstance(run, Session):
                self._settle(plan, run, publish)
        return self

    def _settle(self, plan: P, run: Session, publish: Callable[[], Mapping[str, str]]) -> None:
        """End the run in the ledger, with what it made, and certify it.

        The row that ends the run holds the hash of each published file, and of the certificate
        but for its place in the chain. So none of them can be exchanged.
        """
        product = self._product()
        self._take_contents(load(product), plan)  # samples come from what is published
        self._certificate = self._certify(plan, run)
        self._extract = run.ledger.extract(run.run)
        files = {
            "config.toml": plan.sha256,
            f"{self.product}.safetensors": hashlib.sha256(product).hexdigest(),
            **publish(),
        }
        result = {"certificate": certificate_sha256(self._certificate), "files": files}
        run.ledger.settle(run.run, result)
        self._extract = run.ledger.extract(run.run)
        head = run.ledger.rows(run.run)[-1].hash
        self._certificate["ledger"] = {"rows": len(self._extract), "head": head}
        self._signature = signed(json_bytes(self._certificate), run.ledger.path.parent)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images."""
        return self._fitted().public.shape

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the labels stand for, in their order."""
        return self._fitted().public.class_names

    @property
    def extract(self) -> list[dict[str, Any]]:
        """The ledger's rows up to this run's last: those of other runs as digests."""
        return list(self._extract)

    @property
    def certificate(self) -> dict[str, Any]:
        """What was spent, ready to publish and to re-check."""
        self._fitted()
        if self._certificate is None:
            raise DataLensError("Only rank 0 of a run has its certificate.")
        return dict(self._certificate)

    def save(self, path: str | Path) -> None:
        """Write what may be published: configuration, ledger extract, certificate, product."""
        plan = self._fitted()
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(plan.to_toml())
        extract = {"format": LEDGER_FORMAT, "rows": self._extract}
        (folder / "ledger.json").write_bytes(json_bytes(extract))
        (folder / f"{self.product}.safetensors").write_bytes(self._product())
        if not self.certificate["private"]:
            (folder / "NOT-PRIVATE.txt").write_text(self.certificate["statement"] + "\n")
        if self._signature:
            (folder / SIGNATURE).write_text(self._signature)
        # Last: its presence means that the run is finished.
        (folder / "certificate.json").write_bytes(json_bytes(self.certificate))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read back what `save` wrote. No pickle: TOML, JSON and safetensors.

        Raises a DataLensError where the certificate does not hold: where the files contradict it or
        each other, or the run's ledger, if that is here.
        """
        folder = Path(path)
        config = read_config(folder)
        if config.get("method") != cls.method:
            raise DataLensError(
                f"{folder} holds a run of {shown(config.get('method'))}, not {cls.method!r}."
            )
        with reading(folder / "config.toml"):
            loaded = cls(**config["settings"])
            loaded.plan = loaded.resolve(_public(config["data"]))
        with reading(folder / f"{cls.product}.safetensors") as file:
            loaded._take_contents(load(read_whole(file, at_most=MAX_PRODUCT)), loaded.plan)
        with reading(folder / "certificate.json") as file:
            loaded._certificate = read_json(file)
            if not isinstance(loaded._certificate["private"], bool):
                raise DataLensError("it must say whether the run was private.")
        with reading(folder / "ledger.json") as file:
            loaded._extract = read_json(file)["rows"]
        if (folder / SIGNATURE).exists():
            loaded._signature = read_whole(folder / SIGNATURE, at_most=LONGEST_SIGNATURE).decode()
        if wrong := contradictions(folder, ledger=ledger_of_run(folder)):
            check = shlex.join(["datalens", "verify", str(folder)])
            raise DataLensError(
                f"The certificate of {folder} does not hold: {wrong[0]} Check it with {check}."
            )
        return loaded

    def _product(self) -> bytes:
        """The product's file."""
        # safetensors writes memory as it lies, whichever way an array reads it.
        contents = self._contents().items()
        return save({name: np.ascontiguousarray(array) for name, array in contents})

    def _certify(self, plan: P, session: Session) -> dict[str, Any]:
        """The certificate, but for its place in the ledger's chain."""
        return issue(
            run=session.run,
            method=plan.method,
            data=plan.data,
            charges=session.ledger.charges(session.run),
            parameters=plan.parameters,
            budget=plan.settings.budget,
            noise=session.kind(plan),
            configuration_sha256=plan.sha256,
            product=self.product,
            product_sha256=hashlib.sha256(self._product()).hexdigest(),
            facts=plan.facts,
        )

    def _fitted(self) -> P:
        if self.plan is None:
            raise DataLensError("This method has not been fitted; call fit or load first.")
        return self.plan


AnyLearner = Learner[Any]


def read_config(folder: Path) -> dict[str, Any]:
    """config.toml of a run folder."""
    with reading(folder):
        if not (folder / "config.toml").exists():
            raise DataLensError(f"{folder} is no run: it has no config.toml.")
    return read_toml(folder / "config.toml")


def _public(data: dict[str, Any]) -> PublicFacts:
    """The facts that a configuration repeats, if they are of the kinds that they should be."""
    channels, height, width = data["shape"]
    name, n_records, class_names = data["name"], data["n_records"], data["class_names"]
    numbers, names = (n_records, channels, height, width), (name, *class_names)
    if any(type(n) is not int for n in numbers) or any(type(n) is not str for n in names):
        raise DataLensError("its [data] is not what DataLens writes.")
    return PublicFacts(
        name=name,
        n_records=n_records,
        shape=(channels, height, width),
        class_names=tuple(class_names),
    )
