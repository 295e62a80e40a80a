"""Events describe: they hold possible numbers only, and survive a file exactly."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism.events import (
    Event,
    GaussianRelease,
    LaplaceRelease,
    SampledGaussianRelease,
    event_from_json,
)

NONSENSE = [0.0, -1.0, math.nan, math.inf, 10**400]


def gaussian(**changes: Any) -> GaussianRelease:
    fields = {"squared_sensitivity": 9, "squared_sensitivity_replace": 36, "sigma": 10.0}
    return GaussianRelease(**{"what": "class-sums", **fields, **changes})


def step(**changes: Any) -> SampledGaussianRelease:
    fields = {"what": "dp-sgd", "sampling_probability": 0.01, "noise_multiplier": 1.1}
    return SampledGaussianRelease(**{**fields, **changes})


def laplace(**changes: Any) -> LaplaceRelease:
    fields = {"what": "real-votes", "sensitivity": 1, "sensitivity_replace": 2, "scale": 3.0}
    return LaplaceRelease(**{**fields, **changes})


events = st.one_of(
    st.builds(
        gaussian,
        what=st.text(max_size=9),
        squared_sensitivity=st.integers(1, 2**80) | st.floats(1e-9, 1e30),
        squared_sensitivity_replace=st.integers(1, 2**80),
        sigma=st.floats(1e-9, 1e12),
    ),
    st.builds(
        step,
        sampling_probability=st.floats(1e-9, 1.0),
        noise_multiplier=st.floats(1e-3, 1e9),
    ),
    st.builds(
        laplace,
        sensitivity=st.integers(1, 2**60) | st.floats(1e-9, 1e30),
        sensitivity_replace=st.integers(1, 2**60),
        scale=st.floats(1e-9, 1e12),
    ),
)


@settings(max_examples=200, deadline=None)
@given(event=events)
def test_an_event_survives_a_file_exactly(event: Event) -> None:
    again = event_from_json(json.loads(json.dumps(event.to_json())))
    assert again == event and type(again) is type(event)
    assert again.to_json() == event.to_json()


@pytest.mark.parametrize("name", ["squared_sensitivity", "squared_sensitivity_replace", "sigma"])
@pytest.mark.parametrize("value", NONSENSE)
def test_impossible_releases_are_refused(name: str, value: float) -> None:
    with pytest.raises(DataLensError, match=name):
        gaussian(**{name: value})


@pytest.mark.parametrize("name", ["sampling_probability", "noise_multiplier"])
@pytest.mark.parametrize("value", NONSENSE)
def test_impossible_steps_are_refused(name: str, value: float) -> None:
    with pytest.raises(DataLensError, match=name):
        step(**{name: value})


@pytest.mark.parametrize("name", ["sensitivity", "sensitivity_replace", "scale"])
@pytest.mark.parametrize("value", NONSENSE)
def test_impossible_laplace_noise_is_refused(name: str, value: float) -> None:
    with pytest.raises(DataLensError, match=name):
        laplace(**{name: value})


def test_the_limits() -> None:
    assert step(sampling_probability=1.0).sampling_probability == 1.0
    with pytest.raises(DataLensError, match="at most 1"):
        step(sampling_probability=1.0000001)
    for scale in (2.0**46, 2.0**-46):
        with pytest.raises(DataLensError, match="between"):
            gaussian(sigma=scale)
        with pytest.raises(DataLensError, match="between"):
            step(noise_multiplier=scale)
        with pytest.raises(DataLensError, match="between"):
            laplace(scale=scale)


@pytest.mark.parametrize("kind", ["exponential", None, 3, [], ""])
def test_what_is_not_known_is_refused(kind: object) -> None:
    with pytest.raises(DataLensError, match="Unknown privacy event"):
        event_from_json({**gaussian().to_json(), "event": kind})


@pytest.mark.parametrize(
    "change", [{"extra": 1}, {"sigma": "5"}, {"noise_multiplier": 1.0}, {"sigma": None}]
)
def test_wrong_fields_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(DataLensError, match="wrong fields"):
        event_from_json({**gaussian().to_json(), **change})


@pytest.mark.parametrize("body", [{"event": "gaussian", "x" * 9000: 1}, {"event": "x" * 9000}])
def test_what_is_wrong_is_said_in_a_sentence_however_long_it_is(body: dict[str, object]) -> None:
    with pytest.raises(DataLensError) as refused:
        event_from_json(body)
    assert len(str(refused.value)) < 300
