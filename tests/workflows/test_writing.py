"""What takes the place of a file does so whole: a full disk leaves what was there."""

import errno
from pathlib import Path

import pytest

from datalens.errors import DataLensError
from datalens.workflows.report import page
from datalens.workflows.writing import EVALUATION, keep_internal


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes three bytes."""
    whole = Path.write_bytes

    def cut(path: Path, content: bytes) -> int:
        whole(path, content[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", cut)


def test_a_page_takes_the_place_of_another_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    for text in ("one", "another, with an ä"):
        assert page.write(text, target).read_text(encoding="utf-8") == text
    assert list(target.parent.iterdir()) == [target]


def test_a_full_disk_leaves_the_page_that_was_there(tmp_path: Path, full: None) -> None:
    target = tmp_path / "report.html"
    target.write_text("the old one")
    with pytest.raises(DataLensError, match=r"report\.html cannot be written \(No space left"):
        page.write("the new one", target)
    assert target.read_text() == "the old one" and list(tmp_path.iterdir()) == [target]


def test_and_the_figures(tmp_path: Path, full: None) -> None:
    inside = tmp_path / "internal"
    inside.mkdir()
    (inside / EVALUATION).write_text("{}")
    with pytest.raises(DataLensError, match=r"evaluation\.json cannot be written \(No space left"):
        keep_internal(tmp_path, EVALUATION, {"accuracy": 0.5})
    assert (inside / EVALUATION).read_text() == "{}" and len(list(inside.iterdir())) == 1


def test_without_its_private_half_nothing_is_kept(tmp_path: Path) -> None:
    keep_internal(tmp_path, EVALUATION, {"accuracy": 0.5})
    assert list(tmp_path.iterdir()) == []
