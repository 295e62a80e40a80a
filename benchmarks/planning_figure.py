"""Theorem 6's terms over k: of gradients that were measured, and of the Weibull model."""

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from planning_teachers import asked_once
from scipy.special import gamma

from datalens.data import load
from datalens.planning.theory import (
    Descent,
    best_k,
    bound,
    measured_taus,
    noise_constant,
    sign_variance,
    weibull_taus,
)
from datalens.privacy.calibration import budget_rho
from datalens.synthesizers.quorum import LIKENESS, SHAPE
from datalens.workflows.curves import Panel, svg

SHARD, UPDATES, VALUES = 20, 40, 784
N_TEACHERS, STEPS, STEP_SIZE = 4000, 1000, 0.1
EPSILONS = (1.0, 2.0, 3.0)
DRAWN = 2.0
TERMS = ("start", "compression", "disagreement", "movement", "noise", "quantisation", "total")


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """What the bound needs to know of them, each scaled so that its largest entry is 1."""

    length: float
    """M, in root mean square."""
    disagreement: tuple[float, ...]
    """By entry, in root mean square."""
    taus: np.ndarray


def figure(given: argparse.Namespace) -> dict[str, Any]:
    """Compact teachers on fashion-mini, and the model that plan uses; each line twice, so that the
    trade-off is seen as well as the small terms."""
    every = {"measured": measured(), f"Weibull, shape {SHAPE:g}": modelled()}
    panels, found = [], {}
    for name, gradients in every.items():
        found[name] = {
            "length": gradients.length,
            "disagreement": math.hypot(*gradients.disagreement),
            "best_k": {f"{e:g}": best(descent(gradients, e), gradients) for e in EPSILONS},
        }
        panels += [panel(name, gradients, steep=steep) for steep in (False, True)]
    (given.out / "tradeoff.svg").write_text(svg(panels, columns=2))
    return found


def measured() -> Gradients:
    chance = torch.Generator().manual_seed(0)
    gradients = asked_once(load("fashion-mini"), SHARD, UPDATES, chance).double().numpy()
    gradients = gradients / np.abs(gradients).max(axis=-1, keepdims=True)
    apart = ((gradients - gradients.mean(axis=0)) ** 2).mean(axis=(0, 1))
    return Gradients(
        length=float((gradients**2).sum(axis=-1).mean()) ** 0.5,
        disagreement=tuple(np.sqrt(apart).tolist()),
        taus=measured_taus(gradients),
    )


def modelled() -> Gradients:
    """As synthesizers/quorum.py has them."""
    power = 2 / SHAPE
    each = float(gamma(1 + power)) / math.log(VALUES) ** power
    apart = (each * (1 - LIKENESS * math.sqrt(SHARD))) ** 0.5
    return Gradients(
        length=(VALUES * each) ** 0.5,
        disagreement=(apart,) * VALUES,
        taus=weibull_taus(VALUES, SHAPE),
    )


def descent(gradients: Gradients, epsilon: float) -> Descent:
    """One release a step; the way to go is that of a quadratic with such a gradient."""
    rho = budget_rho(epsilon, 1e-5, "certified")
    return Descent(
        smoothness=1.0,
        gradient=gradients.length,
        clip=1.0,
        n_values=VALUES,
        noise=noise_constant(rho=rho, releases=STEPS, n_teachers=N_TEACHERS),
        disagreement=gradients.disagreement,
        step_size=STEP_SIZE,
        steps=STEPS,
        gap=gradients.length**2 / 2,
    )


def best(way: Descent, gradients: Gradients) -> dict[str, int]:
    return {
        "unquantised": best_k(way, gradients.taus),
        "signs": best_k(way, gradients.taus, signs_of=N_TEACHERS),
    }


def panel(name: str, gradients: Gradients, *, steep: bool) -> Panel:
    shown = [int(k) for k in np.unique(np.geomspace(1, VALUES, 60).astype(int))]
    way = descent(gradients, DRAWN)
    bounds = [
        bound(
            way,
            top_k=k,
            tau=float(gradients.taus[k - 1]),
            quantisation=sign_variance(k, N_TEACHERS),
        )
        for k in shown
    ]
    return Panel(
        title=f"{name}, epsilon {DRAWN:g}: best k {best(way, gradients)['signs']}",
        x_label="k",
        y_label="bound",
        x=shown,
        lines={term: [getattr(each, term) for each in bounds] for term in TERMS},
        logarithmic=True,
        steep=steep,
    )
