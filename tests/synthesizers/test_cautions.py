"""What is to be said against a fit is said in Python too, and a budget is spent only once."""

import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens import ClassGaussian, DataLensError, DataLensWarning, Records
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.synthesizers import METHODS
from datalens.synthesizers.private_classifier import CLASSIFIERS
from datalens.synthesizers.session import Session
from datalens.workflows.fitting import fit_run, resume_run
from datalens.workflows.source import Source


def records(n: int = 300, seed: int = 0) -> Records:
    images = np.random.default_rng(seed).integers(0, 256, (n, 1, 8, 8), dtype=np.uint8)
    return Records.from_arrays(images, np.arange(n) % 2, n_classes=2, name="scans")


def said(work: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    assert all(issubclass(each.category, DataLensWarning) for each in found)
    return found


def test_each_caution_is_raised_once_and_points_at_the_line_that_calls_fit() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    found = said(lambda: ClassGaussian(epsilon=0.1, delta=1 / 3).fit(records(3)))
    few, delta = (str(each.message) for each in found)
    assert "3 records at epsilon 0.1 are too few" in few and "no useful images" in few
    assert "delta 0.333333 is not below 1/n" in delta
    assert {(each.filename, each.lineno) for each in found} == {(__file__, line)}


def test_what_is_said_of_ledgers_points_there_too() -> None:
    ClassGaussian(epsilon=50.0).fit(records())
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    found = said(lambda: ClassGaussian(epsilon=50.0).fit(records(), ledger="other"))
    (each,) = [each for each in found if "used with the ledger scans" in str(each.message)]
    assert (each.filename, each.lineno) == (__file__, line)


def test_where_all_is_well_nothing_is_said() -> None:
    assert said(lambda: ClassGaussian(epsilon=500.0).fit(records(3000))) == []


def test_a_caution_that_is_made_an_error_stops_a_run_before_anything_is_spent() -> None:
    with warnings.catch_warnings(), pytest.raises(DataLensWarning, match="too few"):
        warnings.simplefilter("error", DataLensWarning)
        ClassGaussian(epsilon=0.1).fit(records())
    assert Ledger(ledger_path("scans")).rows() == []


def test_a_run_that_goes_on_says_nothing_twice(tmp_path: Path) -> None:
    session = Session.start(ledger="scans", folder=tmp_path / "internal")
    method = ClassGaussian(epsilon=0.1)
    session.recognise(records())
    assert said(lambda: session.reserve(method.resolve(records().public), records()))
    resumed = Session.resume(folder=tmp_path / "internal")
    assert said(lambda: method.fit(records(), session=resumed)) == []


def test_a_run_that_was_killed_before_it_was_let_in_is_asked_again(tmp_path: Path) -> None:
    ClassGaussian(epsilon=5.0).fit(records())
    for named in (False, True):
        folder = tmp_path / str(named) / "internal"
        Session.start(ledger="copy", folder=folder, named=named)
        resumed, method = Session.resume(folder=folder), ClassGaussian(epsilon=5.0)
        if named:
            assert method.fit(records(), session=resumed).certificate["private"]
        else:
            with pytest.raises(DataLensError, match="used with the ledger scans"):
                method.fit(records(), session=resumed)


def test_the_command_line_prints_what_python_raises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fit() -> None:
        fit_run(
            ClassGaussian(epsilon=0.01, delta=0.01), Source(name="digits"), tmp_path / "run",
            ledger=None, seed=None, allow_large_delta=True,
        )  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever Python would show of them
        fit()
    err = capsys.readouterr().err
    assert err.count("Careful: ") == 2
    assert err.count("are too few") == 1 and err.count("delta 0.01 is not below 1/n") == 1


def test_another_warning_is_shown_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve = ClassGaussian._train

    def odd(self: Any, *given: Any) -> None:
        warnings.warn("this is odd", RuntimeWarning, stacklevel=1)
        resolve(self, *given)

    monkeypatch.setattr(ClassGaussian, "_train", odd)

    def fit() -> None:
        source = Source(name="digits")
        fit_run(ClassGaussian(epsilon=9.0), source, tmp_path / "run", ledger=None, seed=None)

    with pytest.warns(RuntimeWarning, match="this is odd"):
        fit()
    assert "odd" not in capsys.readouterr().err


def test_a_delta_above_1_over_n_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(DataLensError, match=r"delta 0\.01 is above 1/n = 0\.00333 for 300 records"):
        ClassGaussian(epsilon=1.0, delta=0.01).fit(records())
    assert Ledger(ledger_path("scans")).rows() == []
    allowed = ClassGaussian(epsilon=1.0, delta=0.01).fit(records(), allow_large_delta=True)
    assert allowed.certificate["delta"] == 0.01
    ClassGaussian(epsilon=1.0, delta=1 / 300).fit(records())
    seeded = ClassGaussian(epsilon=1.0, delta=0.01).fit(records(), seed=1)
    assert not seeded.certificate["private"]


def test_classifiers_refuse_it_too() -> None:
    with pytest.raises(DataLensError, match=r"allow_large_delta=True"):
        CLASSIFIERS["dpsgd"](epsilon=1.0, delta=0.01, steps=1).fit(records())


def test_a_run_that_was_allowed_a_large_delta_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: Any, *given: Any) -> None:
        raise KeyboardInterrupt

    source, method = Source(name="digits"), ClassGaussian(epsilon=5.0, delta=0.01)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ClassGaussian, "_train", crash)
        fit_run(method, source, tmp_path / "run", ledger=None, seed=None, allow_large_delta=True)
    resume_run(source, tmp_path / "run")
    assert (tmp_path / "run" / "certificate.json").exists()


def test_a_refused_run_leaves_no_folder(tmp_path: Path) -> None:
    method = ClassGaussian(epsilon=5.0, delta=0.01)
    with pytest.raises(DataLensError, match="--allow-large-delta"):
        fit_run(method, Source(name="digits"), tmp_path / "run", ledger=None, seed=None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("loaded", [False, True])
def test_a_fitted_object_is_fitted_again_only_if_that_is_asked_for(
    loaded: bool, tmp_path: Path
) -> None:
    method = METHODS["class-gaussian"](epsilon=5.0).fit(records())
    if loaded:
        method.save(tmp_path / "run")
        method = METHODS["class-gaussian"].load(tmp_path / "run")
    first = method.certificate["run"]
    with pytest.raises(DataLensError, match="refit=True"):
        method.fit(records())
    assert method.certificate["run"] == first
    assert len(Ledger(ledger_path("scans")).standing().runs) == 1
    method.fit(records(), refit=True)
    assert method.certificate["run"] != first
    assert len(Ledger(ledger_path("scans")).standing().runs) == 2


def test_a_fit_that_failed_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Any, *given: Any) -> None:
        raise KeyboardInterrupt

    method = ClassGaussian(epsilon=5.0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ClassGaussian, "_train", crash)
        method.fit(records())
    assert method.fit(records()).certificate["private"]
