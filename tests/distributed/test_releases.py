"""Spend first, release second, with several ranks: one ledger, one noise, all on rank 0."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.ensemble import Ranks
from datalens.mechanism.moments import ClassCounts
from datalens.mechanism.noise import Integers
from datalens.privacy.accountants import Charge
from datalens.privacy.ledger import Ledger
from datalens.privacy.releases import Received, Releases
from datalens.synthesizers.session import Member

from ..privacy.test_ledger import Witness
from .linked import linked, together

COUNTS = ClassCounts(sigma=2.0, n_classes=3)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.reserve("run", [Charge(event=COUNTS.event, count=2)], facts={})
    return Witness(ledger.path)


def obtain(witness: Witness, folder: Path, *keys: str) -> tuple[list[Any], list[int]]:
    """The releases as each of three ranks gets them, and how often each touched its records."""
    touched = [0, 0, 0]

    def work(ranks: Ranks) -> list[Any]:
        def query() -> Integers:
            touched[ranks.rank] += 1
            return np.array([ranks.rank, 10, 100])

        door: Any = Received(ranks=ranks)
        if ranks.rank == 0:
            ledger = Ledger(witness.path)
            door = Releases(
                ledger=ledger,
                run="run",
                noise=witness,
                folder=folder,
                ranks=ranks,  # type: ignore[arg-type]
            )
        return [door.obtain(key, COUNTS, query) for key in keys]

    return together(linked(3), work), touched


def test_the_charge_is_durable_before_the_one_noise_is_added(
    witness: Witness, tmp_path: Path
) -> None:
    got, touched = obtain(witness, tmp_path / "releases", "a", "b")
    assert witness.seen == [([3, 30, 300], True), ([3, 30, 300], True)]
    assert touched == [2, 2, 2]
    for first, second, third in zip(*got, strict=True):
        assert (first == second).all() and (first == third).all()
    assert not (got[0][0] == got[0][1]).all()


def test_what_was_drawn_is_recalled_on_all_ranks(witness: Witness, tmp_path: Path) -> None:
    first, _ = obtain(witness, tmp_path / "releases", "a")
    again, touched = obtain(witness, tmp_path / "releases", "a")
    assert touched == [0, 0, 0] and len(witness.seen) == 1
    assert all((release == first[0][0]).all() for (release,) in again)


def test_what_a_crash_has_lost_is_lost_on_all_ranks(witness: Witness, tmp_path: Path) -> None:
    obtain(witness, tmp_path / "releases", "a")
    (tmp_path / "releases" / "a.npy").unlink()
    assert obtain(witness, tmp_path / "releases", "a") == ([[None]] * 3, [0, 0, 0])


def test_no_budget_no_noise_and_everybody_hears_of_it(witness: Witness, tmp_path: Path) -> None:
    got, _ = obtain(witness, tmp_path / "releases", "a", "b", "c")
    assert all("would exceed its budget" in str(error) for error in got)
    assert len(witness.seen) == 2


def test_other_ranks_have_nothing_to_spend_or_draw_with(tmp_path: Path) -> None:
    member = Member(secret=b"s", folder=tmp_path)
    assert not {"ledger", "noise", "run"} & (set(vars(member)) | set(vars(member.releases)))
