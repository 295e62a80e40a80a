"""What docs say of killed runs is what benchmarks/kills.py has found."""

from pathlib import Path

import kills

DOCS = Path(__file__).parents[2] / "docs"
FOUND = kills.read(DOCS / "results" / "kills")


def test_the_pages_say_what_the_files_say() -> None:
    assert [each["kills"] for each in FOUND] == list(kills.KILLS.values())
    assert (DOCS / "results" / "kills" / "README.md").read_text() == kills.page(FOUND)
    assert kills.table(FOUND) in (DOCS / "resuming.md").read_text()


def test_few_runs_could_not_be_resumed() -> None:
    """And losing part of one is the rule for DP-SGD alone, which is charged in blocks."""
    assert sum(each["ended"] for each in FOUND) <= sum(each["kills"] for each in FOUND) / 50
