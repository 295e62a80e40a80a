"""Every mutant is caught, by a check that the true code passes; docs/guarantees.md says which."""

from collections.abc import Callable
from pathlib import Path

import pytest

from datalens.workflows.audit import tallies
from datalens.workflows.audit.running import verdict
from datalens.workflows.audit.trials import play

from . import checks, sabotage

Check = Callable[[Path], bool]
Sabotage = Callable[[pytest.MonkeyPatch], None]

CAUGHT: list[tuple[Sabotage, Check]] = [
    (sabotage.shards_wrap_around, checks.isolation_of_records),
    (sabotage.shards_wrap_around, checks.audit_of_runs),
    (sabotage.moments_are_shared, checks.isolation_of_optimisers),
    (sabotage.batch_statistics_are_shared, checks.isolation_of_batches),
    (sabotage.threads_are_taken_back, checks.isolation_of_threads),
    (sabotage.conversions_are_shared, checks.isolation_of_conversions),
    (sabotage.noise_is_half, checks.audit_of_tallies),
    (sabotage.ballots_have_2k_entries, checks.audit_of_moves),
    (sabotage.ballots_let_nan_through, checks.audit_of_moves),
    (sabotage.charge_comes_after_its_release, checks.charge_before_release),
    (sabotage.noise_is_drawn_again_on_resume, checks.one_draw_a_release),
    (sabotage.noise_comes_from_a_fixed_seed, checks.noise_of_its_own),
    (sabotage.a_step_is_charged_once, checks.audit_of_moves),
    (sabotage.a_step_is_charged_once, checks.audit_of_runs),
]
BY_BOUND = [
    sabotage.noise_is_half,
    sabotage.ballots_have_2k_entries,
    sabotage.noise_is_drawn_again_on_resume,
    sabotage.noise_comes_from_a_fixed_seed,
    sabotage.a_step_is_charged_once,
]
"""Mutants for which the bounds alone, at 10,000 trials, exceed the claim."""
GUARANTEES = Path(__file__).parents[2] / "docs" / "guarantees.md"


@pytest.mark.parametrize("mutant, check", CAUGHT, ids=lambda part: part.__name__)
def test_caught(
    mutant: Sabotage, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert not check(tmp_path)


@pytest.mark.parametrize(
    "check", dict.fromkeys(check for _, check in CAUGHT), ids=lambda check: check.__name__
)
def test_the_true_code_passes(check: Check, tmp_path: Path) -> None:
    assert check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, *BY_BOUND], ids=lambda m: m.__name__ if m else "truth")
def test_the_bounds_exceed_the_claim(
    mutant: Sabotage | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without looking how far tallies moved. The truth must stay below, and mutants may not."""
    if mutant is not None:
        mutant(monkeypatch)
    transcript = play(tallies.attack, 10_000, tell=lambda done, total: None)
    bounds = verdict(transcript, confidence=checks.CONFIDENCE)["bounds"]
    assert all(bound["holds"] for bound in bounds) is (mutant is None)


def documented() -> set[tuple[str, str]]:
    """The rows of the table: which mutant, and what catches it."""
    _, section = GUARANTEES.read_text().split("## The audit")
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    cells = [(row[-3].strip(" `"), row[-2].strip(" `")) for row in rows]
    return {(mutant, check) for mutant, check in cells if hasattr(sabotage, mutant)}


def test_the_guarantees_name_these_mutants_and_no_others() -> None:
    assert documented() == {(m.__name__, check.__name__) for m, check in CAUGHT}
