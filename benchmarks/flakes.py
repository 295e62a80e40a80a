"""How often the statistical tests would err by chance: 1,000 runs of each; one table.

    python benchmarks/flakes.py --runs 1000 --out docs/results/audit

Noise tests are repeated as they are, with noise from the operating system. The audit's decision is
repeated on scores drawn from their exact law (a sum of discrete Gaussians, from a seed) in place
of scores that went through a ledger; the decision itself is the tests' own. "True" must never be
rejected and "wrong" always; each line says how often it was otherwise.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from datalens.mechanism.noise import ExactNoise
from datalens.privacy.accountants import Charge
from datalens.privacy.audit import Transcript
from datalens.workflows.audit import tallies
from datalens.workflows.audit.running import RUNS, TRIALS, verdict
from datalens.workflows.bench.machine import description

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.mutants.checks import CONFIDENCE
from tests.mutants.checks import TRIALS as TRIALS_IN_TESTS
from tests.statistical.test_noise import ACCEPT, SAMPLES, discrete_gaussian_p, draw

SLOW_TRIALS = 10_000
"""Of tests/mutants/test_mutants.py, where the bounds alone must do."""
CHARGE = Charge(event=tallies.mechanism().event, count=tallies.IMAGES)


def noise_errs() -> dict[str, bool]:
    """tests/statistical/test_noise.py, once."""
    small, large = draw(ExactNoise(), 3.0), draw(ExactNoise(), 5000.0).std()
    near = 6 / np.sqrt(2 * SAMPLES)
    wrong = {f"noise: sigma {s:g} taken for 3": s for s in (2.0, 1.5, 4.5)}
    return {
        "noise: sigma 3 rejected": discrete_gaussian_p(small, 3.0) <= ACCEPT,
        **{name: discrete_gaussian_p(small, s) > ACCEPT for name, s in wrong.items()},
        "noise: sigma 5000 rejected": abs(large / 5000 - 1) > near,
        "noise: sigma 5000 taken for 2500": abs(large / 2500 - 1) <= near,
    }


def score_law(sigma: float, coordinates: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of the sum of so many discrete Gaussians."""
    reach = np.arange(-int(15 * sigma), int(15 * sigma) + 1)
    one = np.exp(-(reach**2) / (2 * sigma**2))
    law = np.ones(1)
    for _ in range(coordinates):
        law = np.convolve(law, one / one.sum())
    far = len(law) // 2
    return np.arange(-far, far + 1), law / law.sum()


def audit_holds(
    chance: np.random.Generator, trials: int, *, sigma: float, coordinates: int
) -> bool:
    """The audit's bounds on scores as an attack on tallies has them, charged as the truth is."""
    law = score_law(sigma, coordinates)
    blanked, present = (chance.choice(law[0], trials, p=law[1]).astype(float) for _ in range(2))
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
    errors = counted(lambda: audit_errs(chance), options.runs) | counted(noise_errs, options.runs)
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
