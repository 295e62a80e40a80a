"""How often the statistical tests would err by chance: 1,000 runs of each; one table.

    python benchmarks/flakes.py --runs 1000 --out docs/results/audit

Decisions are the tests' own. What they decide on is drawn from its exact law, the discrete
Gaussian, by NumPy and from a seed: OpenDP's sampler and the ledger would take hours, and whether
they follow that law is what the tests themselves ask. The truth must never be rejected, and what
is wrong always: each line says how often it was otherwise.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from datalens.privacy import audit
from datalens.privacy.accountants import Charge
from datalens.privacy.audit import Transcript
from datalens.workflows.audit import tallies
from datalens.workflows.audit.running import RUNS, TRIALS, verdict
from datalens.workflows.bench.machine import description

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.mutants.checks import CONFIDENCE
from tests.mutants.checks import TRIALS as TRIALS_IN_TESTS
from tests.statistical.test_noise import ACCEPT, SAMPLES, discrete_gaussian_p

SLOW_TRIALS = 10_000
"""Of tests/mutants/test_mutants.py, where the bounds alone must do."""
CHARGE = Charge(event=tallies.mechanism().event, count=tallies.IMAGES)


def noise_errs(chance: np.random.Generator) -> dict[str, bool]:
    """tests/statistical/test_noise.py, once."""
    small, large = drawn(chance, 3.0, SAMPLES), drawn(chance, 5000.0, SAMPLES).std()
    near = 6 / np.sqrt(2 * SAMPLES)
    wrong = {f"noise: sigma {s:g} taken for 3": s for s in (2.0, 1.5, 4.5)}
    return {
        "noise: sigma 3 rejected": discrete_gaussian_p(small, 3.0) <= ACCEPT,
        **{name: discrete_gaussian_p(small, s) > ACCEPT for name, s in wrong.items()},
        "noise: sigma 5000 rejected": abs(large / 5000 - 1) > near,
        "noise: sigma 5000 taken for 2500": abs(large / 2500 - 1) <= near,
    }


def drawn(chance: np.random.Generator, sigma: float, count: int, terms: int = 1) -> np.ndarray:
    """Sums of so many discrete Gaussians."""
    values, cumulated = law_of_sum(sigma, terms)
    return values[np.searchsorted(cumulated, chance.random(count), side="right")]


@cache
def law_of_sum(sigma: float, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Its values, and the probability of each or less."""
    reach = np.arange(-int(15 * sigma), int(15 * sigma) + 1)
    one = np.exp(-(reach**2) / (2 * sigma**2))
    law = np.ones(1)
    for _ in range(terms):
        law = np.convolve(law, one / one.sum())
    far = len(law) // 2
    return np.arange(-far, far + 1), np.cumsum(law) / law.sum()


def audit_holds(
    chance: np.random.Generator, trials: int, *, sigma: float, coordinates: int
) -> bool:
    """The audit's bounds on scores as an attack on tallies has them, charged as the truth is."""
    blanked, present = (drawn(chance, sigma, trials, coordinates).astype(float) for _ in range(2))
    transcript = Transcript(
        blanked=blanked, present=present + 2 * coordinates, charges=(CHARGE,), moved=1.0
    )
    return bool(verdict(transcript, confidence=CONFIDENCE)["holds"])


def audit_errs(chance: np.random.Generator) -> dict[str, bool]:
    """The true mechanism at every size of audit; half its noise, and twice its entries."""
    sigma, places = tallies.SIGMA, tallies.IMAGES * tallies.TOP_K

    def holds(trials: int, sigma: float = sigma, coordinates: int = places) -> bool:
        return audit_holds(chance, trials, sigma=sigma, coordinates=coordinates)

    sizes = (60, TRIALS_IN_TESTS, RUNS, SLOW_TRIALS, TRIALS)
    return {
        **{f"audit, {n} trials: truth accused": not holds(n) for n in dict.fromkeys(sizes)},
        f"audit, {TRIALS_IN_TESTS} trials: half the noise missed": holds(
            TRIALS_IN_TESTS, sigma=sigma / 2
        ),
        f"audit, {SLOW_TRIALS} trials: 2k entries missed": holds(
            SLOW_TRIALS, coordinates=2 * places
        ),
        f"audit, {TRIALS} trials: 2k entries missed": holds(TRIALS, coordinates=2 * places),
    }


def counted(errs: Callable[[], dict[str, bool]], runs: int) -> dict[str, int]:
    total: dict[str, int] = {}
    for number in range(runs):
        for name, wrong in errs().items():
            total[name] = total.get(name, 0) + bool(wrong)
        if (number + 1) % 100 == 0:
            print(f"{number + 1} of {runs}", file=sys.stderr, flush=True)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chance = np.random.default_rng(options.seed)
    started = time.monotonic()
    audit.epsilon = cache(audit.epsilon)  # the claim is the same every time
    errors = counted(lambda: noise_errs(chance) | audit_errs(chance), options.runs)
    result = {
        "runs": options.runs,
        "seed": options.seed,
        "errors": errors,
        "seconds": round(time.monotonic() - started),
        "machine": description(),
    }
    for name, count in errors.items():
        print(f"{name:<50} {count:>5} of {options.runs}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "flakes.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
