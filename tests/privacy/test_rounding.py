"""Bounds are never shown smaller than they are."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from datalens.privacy.rounding import (
    DUST,
    down_to_places,
    rounded_down,
    rounded_up,
    up_to_places,
)
from datalens.privacy.wording import statement

CHANCE = np.random.default_rng(0)
MANY = [float(v) for v in 10 ** CHANCE.uniform(-12, 12, 4000)]


def understates(shown: Callable[[float], str]) -> list[float]:
    """Values that are shown as less than they are, by more than dust."""
    dust = {v: DUST * Fraction(math.ulp(v)) for v in MANY}
    return [v for v in MANY if Fraction(shown(v).replace(",", "")) < Fraction(v) - dust[v]]


@pytest.mark.parametrize("digits", [1, 3, 4, 6])
def test_what_is_shown_is_not_below_what_is(digits: int) -> None:
    assert understates(lambda v: rounded_up(v, digits)) == []
    assert understates(lambda v: up_to_places(v, digits)) == []
    for value in MANY:
        assert float(rounded_up(value, digits)) <= value * (1 + 10.0 ** (1 - digits))
        assert float(up_to_places(value, digits)) <= value + 1.001 * 10.0**-digits
        low = Fraction(rounded_down(value, digits)) - DUST * Fraction(math.ulp(value))
        assert low <= Fraction(value) and float(low) >= value * (1 - 10.0 ** (1 - digits))
        assert float(down_to_places(value, digits)) <= value * (1 + 1e-15)


@pytest.mark.parametrize("wrong", ["{:.3g}", "{:.4g}", "{:.4f}"])
def test_rounding_to_the_nearest_would_be_caught(wrong: str) -> None:
    """The control."""
    assert len(understates(wrong.format)) > 1000


@pytest.mark.parametrize(
    "value, shown",
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.3"),  # dust
        (0.3 + 1e-12, "0.301"),  # none
        (0.99603, "0.997"),
        (9.9999, "10"),
        (8.19e-10, "8.19e-10"),
        (8.191e-10, "8.2e-10"),
        (0.808, "0.808"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
    ],
)
def test_figures_are_as_short_as_they_were(value: float, shown: str) -> None:
    assert rounded_up(value) == shown


def test_places_stand_one_below_the_other() -> None:
    assert [up_to_places(v, 3) for v in (1.0, 0.1 + 0.2, 0.80801)] == ["1.000", "0.300", "0.809"]
    assert up_to_places(math.inf, 3) == "inf" and down_to_places(0.8089, 3) == "0.808"


def test_a_certificate_says_no_less_than_was_spent() -> None:
    def said(epsilon: float) -> str:
        return statement(
            private=True, epsilon=epsilon, delta=1e-5, records=60, noise="exact"
        ).split("(")[1]

    assert said(0.99601).startswith("0.997, 1e-05)")
    assert said(1.0).startswith("1, 1e-05)")
