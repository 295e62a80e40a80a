"""Every command that README.md and docs/ show is understood; what is cheap is run.

The rule. All commands are parsed, and so are mentions in running text. Pages of `RUN` are
followed from top to bottom in a folder of their own, Python included, but for `NOT_RUN`; data
that a reader would have to bring are stood in for (`STAND_INS`). Other pages are parsed only:
resuming needs a run that was stopped, scaling several machines, evaluate shows a synopsis, results
say how they were made, and every method is run by tests/contracts.
"""

import re
import shutil
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from datalens import load

from .commands import check, check_options
from .shown import PAGES, ROOT, mentions, shown

RUN = (
    "README.md",
    "docs/getting-started.md",
    "docs/planning.md",
    "docs/data.md",
    "docs/report.md",
    "docs/auditing.md",
    "docs/classify.md",
    "docs/methods/dpsgd.md",
)
NOT_RUN = {
    "watch": "serves until it is stopped",
    "audit": "takes minutes; tests/workflows/test_audit.py",
    "evaluate": "takes minutes; tests/workflows/test_evaluation.py",
    "--end": "needs a run that was abandoned; tests/privacy/test_cap.py",
    "--tensorboard": "needs an optional part; tests/workflows/test_listeners.py",
}
STAND_INS = {
    **dict.fromkeys(["mnist", "FOLDER", "DATA", "NAME"], "pictures"),
    "fashion-mini": "digits",
}
"""`pictures` is a small image folder, and the name of its ledger; `digits` comes with a library."""
BRIEFLY = {"plan": ["--no-calibrate"], "classify": ["--steps", "5"]}
"""What commands are given beside what is shown, to take less time; and Python:"""
BRIEFER = {'"fashion-mini"': '"digits"', "(epsilon=1.0).fit(": "(epsilon=1.0, steps=5).fit("}
FOLLOWED_ELSEWHERE = {"docs/extending.md": ROOT / "tests/workflows/test_extending.py"}


def commands(page: str, program: str) -> list[tuple[str, ...]]:
    every = [each.words for each in shown(PAGES[page].read_text())]
    return [words for words in every if words[:1] == (program,)]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page, "datalens")])
def test_commands_are_understood(page: str) -> None:
    for words in commands(page, "datalens"):
        check(words)


def test_commands_in_running_text_name_options_that_exist() -> None:
    for path in PAGES.values():
        for words in mentions(path.read_text()):
            check_options(words)


@pytest.mark.parametrize(
    "wrong",
    [
        "datalens fit FOLDER --epsilon 8 --outt run",
        "datalens fit FOLDER --epsilon much",
        "datalens sample run --count 5",
        "datalens fitt FOLDER --epsilon 8",
    ],
)
def test_a_slip_is_caught(wrong: str) -> None:
    (found,) = shown(f"Text:\n\n    {wrong}   # a comment\n")
    with pytest.raises(Exception, match=r"[Nn]o such|valid|[Mm]issing|no command"):
        check(found.words)


def test_a_slip_in_running_text_is_caught() -> None:
    (found,) = mentions("Say `datalens fit --metod x`.")
    with pytest.raises(ValueError, match="no option --metod"):
        check_options(found)


def test_other_programs_find_what_they_name() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = set[str]()
    for page, path in PAGES.items():
        for words in (each.words for each in shown(path.read_text()) if each.words):
            program, *rest = [word for word in words if word != "OMP_NUM_THREADS=1"]
            found.add(program)
            if program == "make":
                assert rest[0] in targets, page
            elif program == "torchrun":
                check(rest[rest.index("-m") + 1 :])
            elif program == "python" and rest[0] == "-c":
                compile(rest[1], page, "exec")
            elif program == "python":
                assert (ROOT / rest[0]).is_file(), (page, rest)
            else:
                assert program == "datalens", (page, words)
        for extra in re.findall(r"datalens\[(\w+)\]", path.read_text()):
            assert extra in extras["optional-dependencies"], page
    assert found == {"datalens", "make", "torchrun", "python"}


def test_no_python_is_left_out() -> None:
    with_python = {page for page in PAGES if "```python" in PAGES[page].read_text()}
    assert with_python == with_python & {*RUN, *FOLLOWED_ELSEWHERE}
    for page, test in FOLLOWED_ELSEWHERE.items():
        assert Path(page).name in test.read_text()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of class folders, and some new pictures without classes."""
    folder = tmp_path_factory.mktemp("reader")
    records = load("digits")
    for i in np.flatnonzero(records.labels < 2)[:200]:
        home = folder / "pictures" / ["zero", "one"][records.labels[i]]
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(records.images[i, 0]).save(home / f"{i}.png")
    shutil.copytree(folder / "pictures" / "one", folder / "new-pictures")
    return folder


def things() -> dict[str, Any]:
    """What Python blocks take for granted: a reader's own arrays, model and loader."""
    records = load("digits")
    images, labels = records.images[:100], records.labels[:100]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    data = TensorDataset(torch.from_numpy(images / 255).float(), torch.from_numpy(labels))
    return {
        "images": images,
        "labels": labels,
        "new_images": records.images[100:110],
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loader": DataLoader(data, batch_size=20),
        "cross_entropy": cross_entropy,
    }


def left_out(words: tuple[str, ...]) -> bool:
    if any(word.endswith(".parquet") for word in words) and find_spec("pyarrow") is None:
        return True
    return bool(set(words) & set(NOT_RUN))


@pytest.mark.parametrize("page", RUN)
def test_pages_can_be_followed(page: str, run: Any, pictures: Path, tmp_path: Path) -> None:
    here = tmp_path  # where `run` is at home
    shutil.copytree(pictures, here, dirs_exist_ok=True)
    steps = shown(PAGES[page].read_text())
    made = {name for each in steps for name in re.findall(r"--out (\S+)", " ".join(each.words))}
    named = {word for each in steps for word in each.words}
    for name in named & {"run", "run1", "run2", "run3"} - made:  # a reader has these from elsewhere
        words = ("--method", "class-gaussian", "--image-size", 8, "--out", name)
        fit = run("fit", "pictures", "--epsilon", 8, *words)
        assert fit.code == 0, fit.err
    done = 0
    for step in steps:
        if step.python:
            text = step.python
            for long, brief in BRIEFER.items():
                text = text.replace(long, brief)
            exec(compile(text, f"{page}:{step.line}", "exec"), things())
            done += 1
        elif step.words[0] == "datalens" and not left_out(step.words):
            words = [*step.words[1:]]
            if words[0] != "plan":  # which reads no data
                words = [STAND_INS.get(word, word) for word in words]
            found = run(*words, *BRIEFLY.get(words[0], []))
            assert found.code == 0, f"{page}:{step.line}: {found.err}"
            done += 1
    assert done
