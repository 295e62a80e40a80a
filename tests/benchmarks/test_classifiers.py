"""The script behind docs/results/dpsgd: which cells there are, and how they are trained."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifying import running, training
from classifying.cells import HELD, Cell, cifar, dpdl, mnist, tables, wanted
from classifying.printed import TABLE_8A
from classifying.recipes import recipe_for
from classifying.results import read_results
from classifying.running import Order, planned
from classifying.table11 import TABLE_11, Recipe
from classifying.training import Examples, Plan, accuracy, plan, spent, train
from typer.testing import CliRunner

import classifiers
from datalens.classifiers.networks import SmallCnn
from datalens.classifiers.training import PrivateTraining
from datalens.data import Records
from datalens.ensemble.streams import stream
from datalens.errors import DataLensError
from datalens.mechanism.noise import SeededFloatNoise

SECRET = b"s" * 32
SHORT = Recipe(clip=1.0, batch_size=16, learning_rate=0.5, falling=True, steps=3)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes runs by the quick accountant."""
    monkeypatch.setattr(training, "ACCOUNTANT", "certified")


def records(count: int = 64) -> Records:
    """Two classes that any network can tell apart: dark and bright."""
    chance = np.random.default_rng(0)
    labels = np.arange(count) % 2
    images = chance.integers(0, 100, (count, 1, 28, 28)) + 120 * labels[:, None, None, None]
    return Records.from_arrays(images.astype(np.uint8), labels, n_classes=10, name="fake")


def examples() -> Examples:
    fake = records()
    return Examples(torch.from_numpy(fake.images), torch.from_numpy(fake.labels))


def network() -> SmallCnn:
    return SmallCnn((1, 28, 28), 10, stream=stream(b"test"))


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_what_must_hold_comes_first_and_no_cell_twice() -> None:
    cells = wanted([], ["efficientnet-lite0"])
    assert cells[:4] == [mnist(0.8, epsilon) for epsilon in HELD]
    assert cells[4:8] == [mnist(1.0, epsilon) for epsilon in HELD]
    assert len({cell.stem for cell in cells}) == len(cells)
    assert {mnist(k, e) for e in TABLE_8A for k in (0.6, 0.7, 0.8, 1.0)} <= set(cells)
    with pytest.raises(DataLensError, match="no table '12'"):
        wanted(["12"], [])


def test_every_cell_has_a_recipe_that_says_steps_or_noise() -> None:
    for cell in wanted([], ["efficientnet-lite0", "resnet18", "wavelets"]):
        if cell.recipe != "default":
            recipe = recipe_for(cell, 60_000)
            assert (recipe.steps is None) is (recipe.noise_multiplier is not None), cell.stem
            assert recipe.falling is (cell.recipe != "printed")


def test_who_has_no_epsilon_has_no_noise() -> None:
    every = [cell for cells in tables().values() for cell in cells]
    assert {cell.variant for cell in every if cell.epsilon is None} == {"no-noise"}
    quiet = {(cell.keep, cell.epsilon) for cell in every if cell.variant == "no-noise"}
    assert {(0.8, 0.1), (1.0, 0.1), (0.8, 1.0), (1.0, 1.0)} <= quiet


@pytest.mark.parametrize(
    "recipe", [TABLE_11["mnist"][0.2][0.8], replace(SHORT, steps=100, batch_size=512)]
)
def test_a_plan_costs_its_epsilon_and_hardly_less(recipe: Recipe) -> None:
    made = plan(recipe, 60_000, 0.2)
    found = spent(made, "topagg")
    assert found is not None
    assert 0.195 < found["certified"] <= 0.2
    assert found["pld"] < found["certified"] < found["paper"]
    louder = spent(replace(made, noise_multiplier=made.noise_multiplier / 2), "topagg")
    assert louder is not None
    assert louder["certified"] > 0.3


def test_dpdl_pays_by_moments() -> None:
    """So that its noise is more than the same steps need."""
    noises = []
    for cell, sizes in ((dpdl(1.0), "moments"), (mnist(1.0, 1.0), training.ACCOUNTANT)):
        made = planned(cell, 60_000)
        found = spent(made, cell.variant)
        assert found is not None
        assert 0.98 < found[sizes] <= 1.0
        noises.append(made.noise_multiplier)
    assert noises[0] > 1.1 * noises[1]


def test_without_noise_there_is_no_epsilon() -> None:
    made = plan(SHORT, 60_000, None)
    assert made.steps == SHORT.steps
    assert spent(made, "no-noise") is None


def test_steps_are_those_of_the_product_bit_for_bit() -> None:
    """And not those of another share that is kept."""
    made = Plan(recipe=SHORT, n_records=64, steps=3, noise_multiplier=1.5)

    def ours(keep: float) -> torch.Tensor:
        model = network()
        noise = SeededFloatNoise(SECRET)
        train(
            model,
            examples(),
            made,
            variant="topagg",
            keep=keep,
            noise=Renamed(noise),
            secret=SECRET,
        )
        return weights(model)

    product = PrivateTraining(
        network(),
        records(),
        secret=SECRET,
        noise=SeededFloatNoise(SECRET),
        noise_multiplier=1.5,
        batch_size=16,
        steps=3,
        max_grad_norm=1.0,
        learning_rate=0.5,
        keep=0.8,
        at_once=256,
    )
    for number in range(3):
        product.step(number)
    assert torch.equal(ours(0.8), weights(product.network))
    assert not torch.equal(ours(0.7), weights(product.network))


class Renamed:
    """The product names a step's noise by another key."""

    kind = "seeded"

    def __init__(self, noise: SeededFloatNoise) -> None:
        self._noise = noise

    def add(self, values: Any, *, sigma: float, key: str) -> Any:
        return self._noise.add(values, sigma=sigma, key=key.replace("step", "dp-sgd"))


def test_without_noise_it_learns_and_with_much_it_does_not() -> None:
    recipe = replace(SHORT, steps=30, batch_size=32)
    right = {}
    for variant, noise in (("no-noise", 1.0), ("topagg", 1e4)):
        model = network()
        made = Plan(recipe=recipe, n_records=64, steps=30, noise_multiplier=noise)
        train(model, examples(), made, variant=variant, keep=0.8)  # type: ignore[arg-type]
        right[variant] = accuracy(model, examples())
    assert right["no-noise"] == 1.0
    assert right["topagg"] < 0.9


def test_a_rate_falls_only_where_the_recipe_says_so() -> None:
    seen = []
    for falling in (True, False):
        model = network()
        recipe = replace(SHORT, falling=falling, batch_size=64)
        made = Plan(recipe=recipe, n_records=64, steps=2, noise_multiplier=1.0)
        before = [weights(model)]
        train(
            model,
            examples(),
            made,
            variant="no-noise",
            keep=1.0,
            at_step=lambda _, model=model, before=before: before.append(weights(model)),  # type: ignore[misc]
        )
        moves = [float((b - a).norm()) for a, b in pairwise(before)]
        seen.append(moves[1] / moves[0])
    assert seen[0] == pytest.approx(seen[1] / 2, rel=0.02)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Fake data, few steps, and one cell by recipe and one by the product."""
    cells = [mnist(0.8, 1.0), Cell(dataset="mnist", epsilon=0.01, keep=0.8, recipe="default")]
    monkeypatch.setattr(running, "split", lambda *given: (records(), records(20)))
    monkeypatch.setattr(running, "recipe_for", lambda cell, n_records: SHORT)
    monkeypatch.setattr(classifiers, "wanted", lambda names, backbones: cells)
    running._records.cache_clear()
    running._inputs.cache_clear()
    return tmp_path


def test_run_writes_cells_and_page_and_goes_on_where_it_was(small: Path) -> None:
    words = ["run", "--seeds", "1", "--out", str(small)]
    said = CliRunner().invoke(classifiers.app, words)
    assert said.exit_code == 0, said.exception
    found = read_results(small)
    assert {cell.recipe for cell in found} == {"searched", "default"}
    for each in found.values():
        assert each.epsilon is not None
        assert 0 < each.epsilon["pld"] < each.epsilon["certified"]
    assert "Table 8a" in (small / "README.md").read_text()
    assert (small / "figure3.svg").exists()
    again = CliRunner().invoke(classifiers.app, words)
    assert again.output == ""


def test_an_order_for_a_backbone_without_weights_is_refused(small: Path) -> None:
    order = Order(cell=cifar("resnet18", 0.8, 1.0), seed=0, command="")
    with pytest.raises(DataLensError, match="needs its weights"):
        running.repeat(order)
