"""Ranks from Python: every rank may have all records, and still none counts twice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens import DataLensError, Records
from datalens.data import PublicFacts
from datalens.ensemble import Ranks
from datalens.synthesizers import METHODS, DataLens, Synthesizer
from datalens.synthesizers.moments import MomentPlan
from datalens.synthesizers.plan import DataLensPlan
from datalens.synthesizers.session import Member, Session, new_secret

from .linked import linked, together

SMALL: dict[str, dict[str, Any]] = {
    "class-gaussian": {},
    "dp-merf": {"waves": 20, "updates": 3, "batch_size": 6},
    "pategan": {"n_teachers": 6, "block_size": 2, "steps": 3, "batch_size": 3, "latent": 8}
    | {"teacher_warm_up": 1},
    "datalens": {"n_teachers": 6, "block_size": 2, "steps": 3, "batch_size": 3, "latent": 8}
    | {"teacher_warm_up": 1, "clusters": 2, "label_steps": 2},
}


FOR_ONE: dict[str, dict[str, Any]] = {
    "dpgan": {"batch_size": 10},
    "dcgan": {},
    "gpate": {"n_teachers": 6, "batch_size": 3},
    "gswgan": {"n_teachers": 6, "batch_size": 3},
}
"""Methods that one process does alone."""


def test_every_method_is_covered() -> None:
    assert set(SMALL) == set(MANY)
    assert set(FOR_ONE) == set(ALONE)


def records() -> Records:
    images = np.random.default_rng(0).integers(0, 256, (50, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(50) % 3, n_classes=3)


class Drifting(DataLens):
    """Its model differs by a rounding, as on a machine of another kind."""

    def _warm_start(self, *given: Any) -> None:
        super()._warm_start(*given)
        assert self._model is not None
        self._model = replace(self._model, means=self._model.means * np.float32(1 + 1e-6))


def fit(
    ranks: Ranks,
    method: str,
    folder: Path,
    *,
    seeds: tuple[int, int] = (4, 4),
    kinds: dict[str, type[Synthesizer]] = METHODS,
) -> Any:
    folder = folder / str(ranks.rank) / "internal"
    session: Member = Member(secret=new_secret(seeds[1]), folder=folder, ranks=ranks)
    if ranks.rank == 0:
        session = Session.start(ledger="x", folder=folder, seed=seeds[0], ranks=ranks)
    bought = {"epsilon": 5.0, "label_prior": "bought"} if kinds[method].private else {}
    synthesizer = kinds[method](**bought, **(SMALL | FOR_ONE)[method])
    return synthesizer.fit(records(), session=session)


MANY = sorted(name for name, method in METHODS.items() if method.many_ranks)
ALONE = sorted(set(METHODS) - set(MANY))


@pytest.mark.parametrize("method", MANY)
def test_every_rank_ends_with_the_generator_of_one_process(method: str, tmp_path: Path) -> None:
    alone = fit(Ranks(), method, tmp_path / "alone")
    ranks = together(linked(3), lambda ranks: fit(ranks, method, tmp_path / "three"))
    for fitted in ranks:
        for name, array in alone._arrays().items():
            assert np.array_equal(array, fitted._arrays()[name]), name
    assert ranks[0].certificate["epsilon"] == alone.certificate["epsilon"]
    with pytest.raises(DataLensError, match="Only rank 0"):
        _ = ranks[1].certificate
    assert not list((tmp_path / "three" / "1").rglob("*"))


@pytest.mark.parametrize("method", ALONE)
def test_a_method_for_one_process_is_refused_on_two(method: str, tmp_path: Path) -> None:
    for error in together(linked(2), lambda ranks: fit(ranks, method, tmp_path)):
        assert str(error) == f"{method} runs in one process; start it without torchrun."
    session = Session.resume(folder=tmp_path / "0" / "internal")
    assert not session.ledger.rows(session.run)


def test_records_of_all_ranks_are_known_afterwards(tmp_path: Path) -> None:
    """Rank 0 holds every second one."""
    secret = new_secret(None)

    def private(ranks: Ranks) -> Any:
        folder = tmp_path / str(ranks.rank) / "internal"
        session = Member(secret=secret, folder=folder, ranks=ranks)
        if ranks.rank == 0:
            session = Session.start(ledger="x", folder=folder, secret=secret, ranks=ranks)
        return METHODS["class-gaussian"](epsilon=5.0).fit(records(), session=session)

    fitted = together(linked(2), private)
    assert fitted[0].certificate["private"]
    others = records()
    odd = Records.from_arrays(others.images[1::2], others.labels[1::2], n_classes=3, name="odd")
    with pytest.raises(DataLensError, match="used with the ledger x"):
        METHODS["class-gaussian"](epsilon=5.0).fit(odd)


def test_two_secrets_are_refused_before_anything_is_reserved(tmp_path: Path) -> None:
    """They would deal two sets of shards, and a record could reach two teachers."""
    two = together(linked(2), lambda ranks: fit(ranks, "datalens", tmp_path, seeds=(1, 2)))
    assert all("the ranks differ in the secret's checksum" in str(error) for error in two)
    session = Session.resume(folder=tmp_path / "0" / "internal")
    assert not session.ledger.rows(session.run)


def test_ranks_that_drift_apart_end_before_they_vote(tmp_path: Path) -> None:
    def one(ranks: Ranks) -> Any:
        kinds = METHODS if ranks.rank < 2 else {"datalens": Drifting}
        return fit(ranks, "datalens", tmp_path, kinds=kinds)

    for error in together(linked(3), one):
        assert "the ranks differ in the proposed images: rank 0 has" in str(error)
        assert "rank 2 has" in str(error) and "rank 1 has" not in str(error)
    session = Session.resume(folder=tmp_path / "0" / "internal")
    spent = {charge.event.what for charge in session.ledger.charges(session.run)}
    before = {"class-counts", "class-sums", "second-moments"}
    assert spent == before | {"cluster-sums", "cluster-moments", "gradient-sums"}


def test_ranks_with_other_directions_end_before_they_cluster(tmp_path: Path) -> None:
    """As two machines may have them, whose eigenvectors differ in sign."""

    class Mirrored(MomentPlan):
        def buy(self, *given: Any) -> Any:
            model = super().buy(*given)
            return model and replace(model, factor=-model.factor)

    class Elsewhere(DataLens):
        def resolve(self, public: PublicFacts) -> DataLensPlan:
            plan = super().resolve(public)
            assert plan.start is not None
            moments = Mirrored(**vars(plan.start.moments))
            return replace(plan, start=replace(plan.start, moments=moments))

    def one(ranks: Ranks) -> Any:
        kinds = METHODS if ranks.rank == 0 else {"datalens": Elsewhere}
        return fit(ranks, "datalens", tmp_path, kinds=kinds)

    for error in together(linked(2), one):
        assert "the ranks differ in the bought directions" in str(error)
    session = Session.resume(folder=tmp_path / "0" / "internal")
    spent = {charge.event.what for charge in session.ledger.charges(session.run)}
    assert spent == {"class-counts", "class-sums", "second-moments"}


def test_more_ranks_than_records_are_refused() -> None:
    few = records().only(np.arange(2))
    public = replace(few.public, n_records=2)
    for ranks in linked(3):
        with pytest.raises(DataLensError, match="2 records cannot be divided over 3 ranks"):
            METHODS["class-gaussian"](epsilon=5.0).share(public, ranks, b"secret")


def test_a_share_of_another_rank_is_refused() -> None:
    part = records().only(np.arange(0, 50, 2))
    with pytest.raises(DataLensError, match="not the share of rank 0 of 1"):
        METHODS["class-gaussian"](epsilon=5.0).fit(part)
