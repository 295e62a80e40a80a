"""Claims about real data, which are looked for as `datalens data` does."""

import json
from pathlib import Path

import numpy as np
import pytest

from datalens import ClassGaussian, DataLens, DataLensError, Records, load
from datalens.privacy.verify import verify
from datalens.utility.accuracy import JUDGED_IMAGES, judged_accuracy
from datalens.workflows.bench.utility.cells import asked
from datalens.workflows.demo import run_demo
from datalens.workflows.fitting import Source, fit_run, make_synthesizer

pytestmark = pytest.mark.slow


def real(name: str) -> tuple[Records, Records]:
    try:
        return load(name), load(name, split="test")
    except DataLensError as error:
        pytest.skip(f"{name} is not at hand: {error}")


@pytest.mark.parametrize("name, floor", [("mnist", 0.78), ("fashion-mnist", 0.70)])
def test_class_gaussian_at_epsilon_1(name: str, floor: float) -> None:
    train, test = real(name)
    fitted = ClassGaussian(epsilon=1.0).fit(train)
    assert judged_accuracy(*fitted.sample(JUDGED_IMAGES), test).accuracy > floor


@pytest.mark.parametrize("name, floor", [("mnist", 0.92), ("fashion-mnist", 0.77)])
def test_datalens_at_epsilon_1(name: str, floor: float) -> None:
    """Three points below the mean in docs/results/utility, or less: a fault costs more."""
    train, test = real(name)
    fitted = DataLens(epsilon=1.0).fit(train)
    assert judged_accuracy(*fitted.sample(JUDGED_IMAGES), test).accuracy > floor


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_demo(tmp_path / "demo")
    printed = capsys.readouterr().out
    assert "certified" in printed and "samples.png" in printed and "internal: acc" in printed
    figures = json.loads((tmp_path / "demo/internal/evaluation.json").read_text())
    assert figures["datalens"]["accuracy"] >= 0.70 and figures["internal"] is True
    assert figures["epsilon"]["certified"] <= 10
    assert not verify(tmp_path / "demo")
    run_demo(tmp_path / "demo")  # again, over its own traces


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("epsilon, top_k, sigma", [(1.0, 200, 5000.0), (10.0, 350, 900.0)])
def test_the_papers_presets_run(
    name: str, epsilon: float, top_k: int, sigma: float, tmp_path: Path
) -> None:
    real(name)
    synthesizer = make_synthesizer(
        "datalens",
        preset="paper",
        data_name=name,
        overrides={"epsilon": epsilon, "n_teachers": 20, "steps": 3},
    )
    result = fit_run(synthesizer, Source(name=name), tmp_path / "run", ledger=None, seed=None)
    assert result["releases"] == 3 * 15
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    (vote,) = certificate["mechanisms"]
    assert (vote["parameters"]["top_k"], vote["sigma"]) == (top_k, sigma)


@pytest.mark.parametrize("name", ["celeba-gender", "celeba-hair", "places365"])
def test_the_papers_presets_run_in_colour(name: str, tmp_path: Path) -> None:
    """Few teachers and steps of them, under exact noise."""
    records, _ = real(name)
    (cell,) = asked(
        datasets=[name],
        methods=["datalens-paper-compact"],
        epsilons=[10.0],
        settings={"n_teachers": 20, "steps": 3},
    )
    shard = cell.configuration["settings"]["real_batch"]
    synthesizer = DataLens(**cell.configuration["settings"])
    result = fit_run(synthesizer, Source(name=name), tmp_path / "run", ledger=None, seed=None)
    assert result["releases"] == 3 * shard and result["noise"] == "exact"
    assert not verify(tmp_path / "run")
    assert synthesizer.sample(4).images.shape == (4, *records.public.shape)


def test_class_gaussian_on_faces() -> None:
    """Faces of two kinds are told apart better than by saying the more frequent one always."""
    train, test = real("celeba-gender")
    fitted = ClassGaussian(epsilon=10.0).fit(train)
    found = judged_accuracy(*fitted.sample(2000), test)
    assert found.accuracy > np.bincount(test.labels).max() / len(test.labels)
