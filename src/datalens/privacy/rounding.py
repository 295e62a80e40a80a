"""Bounds as people read them: shortened so that what is shown never promises more than holds."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext

DUST = 4
"""Units in the last place of a float. A sum of tenths that should be 0.3 is 0.30000000000000004:
showing 0.3001 would be silly, so what lies this near to a shorter figure is that figure. It is a
ten-billionth of what accountants are exact to, and no bound is known so well."""

_LONGEST = 400
"""Digits that decimals may have on the way: a float has 309 before the point at most."""


def rounded_up(number: float, digits: int = 3) -> str:
    """The smallest figure of that many digits which is not below `number`, as `:g` writes it.

    For whatever is stated as the most: an epsilon spent, a sensitivity, a factor.
    """
    return _figure(number, digits, ROUND_CEILING)


def rounded_down(number: float, digits: int = 3) -> str:
    """The same for whatever is stated as the least, or as what is left."""
    return _figure(number, digits, ROUND_FLOOR)


def up_to_places(number: float, places: int) -> str:
    """Rounded up to digits after the point, as `:f` writes it: figures one below the other."""
    return _places(number, places, ROUND_CEILING)


def down_to_places(number: float, places: int) -> str:
    """Rounded down to digits after the point."""
    return _places(number, places, ROUND_FLOOR)


def _figure(number: float, digits: int, way: str) -> str:
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    last = Decimal(number).adjusted() - digits + 1
    return f"{float(_shortened(number, last, way)):.{digits}g}"


def _places(number: float, places: int, way: str) -> str:
    return f"{_shortened(number, -places, way):f}" if math.isfinite(number) else f"{number:g}"


def _shortened(number: float, last: int, way: str) -> Decimal:
    """To the digit that stands for 10 to the power of `last`."""
    with localcontext(prec=_LONGEST):
        exact, unit = Decimal(number), Decimal(1).scaleb(last)
        near = exact.quantize(unit, ROUND_HALF_EVEN)
        if abs(exact - near) <= DUST * Decimal(math.ulp(number)):
            return near
        return exact.quantize(unit, way)
