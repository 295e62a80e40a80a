"""Every command and every Python block that README.md and docs/ show is run by a test.

The rule. Pages are followed from top to bottom in a folder of their own; data that a reader would
have to bring are stood in for (`STAND_INS`), and what would take long is made brief (`BRIEFLY`).
What cannot be run in seconds stands in `ELSEWHERE`, word for word, with the test or the step of CI
that runs it instead: so nothing new goes unrun without being written down there. All commands are
parsed as well, those in running text too, and those of docs/results, which say how hours of
measuring were done.
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
from datalens.workflows.progress import Watcher

from ...data.test_celeba import lay_out as lay_out_celeba
from ...data.test_cifar10 import lay_out as lay_out_cifar10
from .commands import check, check_options
from .shown import PAGES, ROOT, mentions, shown

ELSEWHERE = {
    "make demo": ("tests/slow/test_real_data.py", "def test_the_demo("),
    "make test": (".ci/run", "make test"),
    "make docs": ("test_site.py", "def test_the_site_builds_without_warnings("),
    "datalens watch run": ("test_watch.py", "def test_the_command_ends_well_with_ctrl_c("),
    "datalens audit": ("test_audit.py", "def test_the_command_on_all_cores("),
    "datalens audit --json": ("test_audit.py", "def test_the_command("),
    "datalens audit --run run --on fashion-mini": (
        "test_audit.py",
        "def test_figures_of_a_run_stay_inside_it(",
    ),
    "datalens evaluate RUN --on DATASET --seeds N --quick --features FILE --json": (
        "test_evaluation.py",
        "def test_distances_are_taken_in_features_from_a_file(",
    ),
    "python examples/inception_weights.py inception.safetensors": (
        "tests/examples/test_inception_weights.py",
        "def test_what_the_hub_has_becomes_a_file_without_pickles(",
    ),
    "datalens evaluate RUN --on DATASET --features inception.safetensors": (
        "test_evaluation.py",
        "def test_distances_are_taken_in_features_from_a_file(",
    ),
    "datalens verify run --key KEY": (
        "test_checked_first.py",
        "def test_the_key_that_the_ledger_shows_checks_the_signature(",
    ),
    "datalens evaluate RUN --on DATASET --private-validation EPSILON --ledger NAME --out FOLDER": (
        "test_validating.py",
        "def test_one_figure_is_bought_and_charged_to_the_held_out_records(",
    ),
    "datalens evaluate synthetic.parquet --on digits": (
        "test_cli.py",
        "def test_parquet_is_judged_as_any_other_form(",
    ),
    **dict.fromkeys(
        [
            "datalens bench utility --datasets mnist,fashion-mnist --held-out --methods dcgan"
            " --epsilons 10",
            "datalens bench utility --datasets mnist,fashion-mnist --held-out --methods dpgan"
            " --epsilons 10,10000",
        ],
        ("test_bench_utility.py", "def test_from_end_to_end_without_touching_the_real_budget("),
    ),
    "datalens fit DATA --epsilon 8 --tensorboard board": (
        "test_listeners.py",
        'run(*words, *steps, "--tensorboard", "board", "--dashboard")',
    ),
    **dict.fromkeys(
        [
            "torchrun --nproc-per-node 4 -m datalens fit mnist --epsilon 1 --vote-share 0.2"
            " --out runs/mnist",
            "torchrun --nproc-per-node 3 -m datalens fit mnist --out runs/mnist --resume",
            "torchrun --nnodes 3 --node-rank 0 --nproc-per-node 2 --master-addr 10.0.0.1"
            " --master-port 29500 -m datalens fit mnist --epsilon 1 --vote-share 0.2"
            " --out runs/mnist",
        ],
        ("tests/distributed/test_failures.py", "def test_torchrun_itself("),
    ),
}
"""Commands that are not run here: the file that runs such a one, and where in it. A name alone is
that of a test of tests/workflows. torchrun is run there with two ranks, of which one is killed, and
the run goes on; several machines are not tried."""
STAND_INS = {
    **dict.fromkeys(["mnist", "FOLDER", "DATA", "NAME"], "pictures"),
    "fashion-mini": "digits",
}
"""`pictures` is a small image folder, and the name of its ledger; `digits` comes with a library."""
LEARN = ("fit", "classify")
"""Commands that would bring a folder's pictures to 64x64, which takes its time."""
BRIEFLY = {
    "plan": ["--no-calibrate"],
    "classify": ["--steps", "5"],
    "evaluate": ["--quick"],
    "dp-merf": ["--set", "updates=2"],
    "dpgan": ["--steps", "2", "--batch-size", "16"],
    **{method: ["--steps", "2"] for method in ("dcgan", "gpate", "gswgan", "pategan")},
    "--compressor": ["--steps", "2", "--teachers", "4", "--no-warm-start"],
}
"""What commands in which such a word occurs are given beside what is shown, to take less time; and
Python:"""
BRIEFER = {'"fashion-mini"': '"digits"', "(epsilon=1.0).fit(": "(epsilon=1.0, steps=5).fit("}
FOLLOWED_ELSEWHERE = {"docs/extending.md": ROOT / "tests/workflows/test_extending.py"}
FOLLOWED = [
    page
    for page, path in PAGES.items()
    if shown(path.read_text())
    and not page.startswith("docs/results/")
    and page not in FOLLOWED_ELSEWHERE
]


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
            elif program == "python" and rest[0] != "-c":  # which is run
                assert (ROOT / rest[0]).is_file(), (page, rest)
            elif program != "python":
                assert program == "datalens", (page, words)
        for extra in re.findall(r"datalens\[(\w+)\]", path.read_text()):
            assert extra in extras["optional-dependencies"], page
    assert found == {"datalens", "make", "torchrun", "python"}


def test_nothing_is_left_out() -> None:
    with_python = {page for page in PAGES if "```python" in PAGES[page].read_text()}
    assert with_python == with_python & {*FOLLOWED, *FOLLOWED_ELSEWHERE}
    for page, test in FOLLOWED_ELSEWHERE.items():
        assert Path(page).name in test.read_text()
        assert not any(each.words for each in shown(PAGES[page].read_text()))


def test_what_is_not_run_here_is_run_where_it_says() -> None:
    every = {" ".join(each.words) for page in FOLLOWED for each in shown(PAGES[page].read_text())}
    assert set(ELSEWHERE) <= every  # what is shown no more is not excused any more
    for name, place in ELSEWHERE.values():
        (file,) = {ROOT / name} if "/" in name else (ROOT / "tests/workflows").rglob(name)
        assert place in file.read_text(), name


def test_a_new_command_is_not_excused() -> None:
    (told,) = shown("    datalens watch run\n")
    (new,) = shown("    datalens watch run --port 8000\n")
    assert excused(told.words) and not excused(new.words)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of class folders, and some new pictures without classes."""
    folder = tmp_path_factory.mktemp("reader")
    records = load("digits")
    for i in np.flatnonzero(records.labels < 2)[:200]:
        home = folder / "pictures" / ["zero", "one"][records.labels[i]]
        home.mkdir(parents=True, exist_ok=True)
        upside_down = records.images[i, 0, ::-1].copy()  # other records than digits
        Image.fromarray(upside_down).save(home / f"{i}.png")
    shutil.copytree(folder / "pictures" / "one", folder / "new-pictures")
    return folder


def things() -> dict[str, Any]:
    """What Python blocks take for granted: a reader's own arrays, model and loader."""
    records = load("digits")
    images, labels = records.images[:100, :, :, ::-1].copy(), records.labels[:100]
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


def excused(words: tuple[str, ...]) -> bool:
    """Run elsewhere, or in need of an optional part that is not here."""
    parquet = any(word.endswith(".parquet") for word in words)
    return " ".join(words) in ELSEWHERE or (parquet and find_spec("pyarrow") is None)


def briefly(words: list[str]) -> list[str]:
    small = ["--image-size", "8"] if words[0] in LEARN and "pictures" in words else []
    return small + [more for word in words for more in BRIEFLY.get(word, [])]


def lay_out(page: str, here: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a reader of this page has already; and what else stands in for what."""
    if page == "docs/data.md":
        lay_out_cifar10(here / "DATA")
        lay_out_celeba(here / "DATA")
        return {"DATA": "DATA"}
    if page == "docs/resuming.md":
        few = ("--teachers", 4, "--steps", 3, "--batch-size", 3, "--no-warm-start")
        with monkeypatch.context() as patched:
            patched.setattr(Watcher, "stopping", lambda self: True)  # as Ctrl-C does
            for out in ("first-run", "given-up"):
                fit = ("fit", "digits", "--epsilon", 3, "--ledger", "clothes", "--out", out)
                assert run(*fit, *few).code == 130
        *_, given_up = run("ledger", "clothes", "--json").json["runs"]
        return {"RUN": given_up["run"]}
    return {}


@pytest.mark.parametrize("page", FOLLOWED)
def test_pages_can_be_followed(
    page: str, run: Any, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path  # where `run` is at home
    shutil.copytree(pictures, here, dirs_exist_ok=True)
    steps = shown(PAGES[page].read_text())
    made = {name for each in steps for name in re.findall(r"--out (\S+)", " ".join(each.words))}
    named = {word for each in steps for word in each.words}
    for name in named & {"run", "run1", "run2", "run3"} - made:  # a reader has these from elsewhere
        fit = ["fit", "pictures", "--epsilon", "8", "--method", "class-gaussian", "--out", name]
        fitted = run(*fit, *briefly(fit), "--ledger", "pictures")
        assert fitted.code == 0, fitted.err
    stand_ins = STAND_INS | lay_out(page, here, run, monkeypatch)
    for step in steps:
        if step.python:
            text = step.python
            for long, brief in BRIEFER.items():
                text = text.replace(long, brief)
            exec(compile(text, f"{page}:{step.line}", "exec"), things())
        elif excused(step.words):
            continue
        elif step.words[:2] == ("python", "-c"):
            exec(compile(step.words[2], f"{page}:{step.line}", "exec"), {})
        else:
            program, *words = step.words
            assert program == "datalens", f"{page}:{step.line} is run nowhere: {step.words}"
            if words[0] != "plan":  # which reads no data
                words = [stand_ins.get(word, word) for word in words]
            found = run(*words, *briefly(words))
            assert found.code == 0, f"{page}:{step.line}: {found.err}"
