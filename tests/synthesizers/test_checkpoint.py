"""Checkpoints: in parts, whole or not at all, and read by any number of ranks."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from datalens.errors import DataLensError
from datalens.synthesizers.checkpoint import Checkpoints
from datalens.synthesizers.session import Stopped


class Rows:
    """Stands in for teachers: teacher i is the number i, times a factor."""

    def __init__(self, first: int, count: int, factor: float = 0.0) -> None:
        self.first_teacher, self.n_teachers = first, count
        self.numbers = torch.arange(first, first + count).float() * factor
        self.steps = torch.full((count,), int(factor))

    def state(self) -> dict[str, Tensor]:
        return {"numbers": self.numbers, "steps": self.steps}


class One:
    """Stands in for the student."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = torch.tensor([value])

    def state(self) -> dict[str, Tensor]:
        return {"value": self.value}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.value.copy_(state["value"])


def write(folder: Path, step: int, *parts: tuple[int, int], factor: float = 2.0) -> None:
    """Each part as its rank would write it."""
    for first, count in parts:
        own = Checkpoints(folder, student=One(factor), teachers=Rows(first, count, factor))
        with pytest.raises(Stopped):
            own.after(step, stopping=True)


@pytest.mark.parametrize("parts", [[(0, 10)], [(0, 4), (4, 6)], [(0, 2), (2, 3), (5, 5)]])
@pytest.mark.parametrize("first, count", [(0, 10), (0, 3), (3, 4), (8, 2)])
def test_any_division_reads_any_other(
    tmp_path: Path, parts: list[tuple[int, int]], first: int, count: int
) -> None:
    write(tmp_path / "checkpoint", 7, *parts)
    student, teachers = One(), Rows(first, count)
    resumed = Checkpoints(tmp_path / "checkpoint", student=student, teachers=teachers).resume()
    assert resumed == 8 and student.value == 2
    assert teachers.numbers.tolist() == [2.0 * i for i in range(first, first + count)]
    assert teachers.steps.tolist() == [2] * count


def test_what_is_not_complete_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    write(folder, 3, (0, 10))
    (folder / "step-00003").rename(tmp_path / "older")
    write(folder, 7, (0, 4))  # the other rank died
    (tmp_path / "older").rename(folder / "step-00003")
    teachers = Rows(0, 10)
    assert Checkpoints(folder, student=One(), teachers=teachers).resume() == 4
    (folder / "step-00003" / "student.safetensors").unlink()
    assert Checkpoints(folder, student=One(), teachers=teachers).resume() == 0
    assert Checkpoints(tmp_path / "none", student=One(), teachers=teachers).resume() == 0


def test_the_older_goes_when_the_newer_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "internal" / "checkpoint"
    write(folder, 3, (0, 10))
    write(folder, 5, (0, 10))
    assert [path.name for path in folder.iterdir()] == ["step-00005"]
    assert folder.parent.stat().st_mode & 0o077 == 0
    Checkpoints(folder, student=One(), teachers=Rows(0, 10)).clear()
    assert not folder.exists()


def test_they_are_written_now_and_then(tmp_path: Path) -> None:
    now = [0.0]
    folder = tmp_path / "checkpoint"
    own = Checkpoints(folder, student=One(), teachers=Rows(0, 2), clock=lambda: now[0])
    for step, (seconds, there) in enumerate(
        [(1, []), (125, ["step-00001"]), (126, ["step-00001"])]
    ):
        now[0] = seconds
        own.after(step, stopping=False)
        assert [path.name for path in folder.glob("*")] == there


@pytest.mark.parametrize("damage", ["cut", "other teachers", "other shape"])
def test_a_damaged_one_is_named(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "checkpoint"
    write(folder, 7, (0, 10))
    (file,) = folder.glob("*/teachers-*")
    teachers = Rows(0, 10)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-5])
    elif damage == "other shape":
        teachers.numbers = torch.zeros(10, 3)
    else:
        teachers.state = lambda: {"numbers": teachers.numbers}  # type: ignore[method-assign]
    with pytest.raises(DataLensError, match=r"step-00007 cannot be read .* rebuilt"):
        Checkpoints(folder, student=One(), teachers=teachers).resume()
