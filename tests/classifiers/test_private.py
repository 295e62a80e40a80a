"""The door: a usual training loop, empty batches, memory, budgets, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from opacus.accountants import PRVAccountant, RDPAccountant
from opacus.grad_sample import GradSampleModule
from opacus.schedulers import ExponentialGradClip, ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from scipy.stats import binom, kstest
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

import datalens
from datalens.classifiers import private as door
from datalens.classifiers.dpsgd import poisson_sample, with_example_gradients
from datalens.classifiers.private import VALID, Private, least_noise, make_private
from datalens.errors import DataLensError
from datalens.mechanism.events import SampledGaussianRelease
from datalens.mechanism.noise import FloatSecureNoise, SeededFloatNoise
from datalens.privacy.accountants import Charge
from datalens.privacy.accountants import epsilon as epsilon_of

SECRET = b"s" * 32
FEATURES, CLASSES, RECORDS = 12, 3, 60


class Stubborn(nn.Module):
    """A model that cannot compute on nothing, as the Opacus example cannot."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(16, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        inner: Tensor = self.first(images.view(-1, 2, 6)).tanh()
        found: Tensor = self.second(inner.view(-1, 16))
        return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Sizes runs by the quick accountant, where that is not the question."""
    if "accountant" not in request.node.name:
        monkeypatch.setattr(door, "VALID", ("certified",))


def records(count: int = RECORDS) -> TensorDataset:
    chance = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(count, FEATURES, generator=chance), torch.arange(count) % CLASSES
    )


def private(model: nn.Module | None = None, **changes: Any) -> Private:
    model = model or Stubborn()
    named: dict[str, Any] = {
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loader": DataLoader(records(), batch_size=10, shuffle=True),
        "epsilon": 3.0,
        "delta": 1e-5,
        "epochs": 2,
        "secret": SECRET,
    }
    return make_private(model=model, **(named | changes))


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def train(made: Private, epochs: int, reduction: str = "mean", loader: Any = None) -> list[int]:
    """The loop that everybody writes. How many came to each batch."""
    model, optimizer, batches = made
    came = []
    for _ in range(epochs):
        for images, labels in loader or batches:
            loss = nn.functional.cross_entropy(model(images), labels, reduction=reduction)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            came.append(len(images))
    return came


def test_the_usual_loop_trains_within_its_budget() -> None:
    made = private()
    before = weights(made.model)
    came = train(made, 2)
    assert len(came) == made.optimizer.steps_taken == 12
    assert len(set(came)) > 3  # sizes vary, as coins do
    assert weights(made.model).isfinite().all() and not torch.equal(before, weights(made.model))
    with pytest.raises(DataLensError, match="All 12 steps"):
        train(made, 1)


def test_it_is_found_at_the_top_of_the_package() -> None:
    assert datalens.make_private is make_private


def test_empty_batches_are_steps_of_noise_alone() -> None:
    """Whatever the model does with its input; and the noise is that of any step."""
    made = private(loader=DataLoader(records(), batch_size=1), keep=0.64)
    model, optimizer, batches = made
    empty = 0
    sampler: Any = batches.batch_sampler
    drawn = [len(poisson_sample(RECORDS, sampler.probability, SECRET, n)) for n in range(120)]
    noise: list[float] = []
    for images, labels in batches:
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        before = weights(model)
        optimizer.step()
        if len(images) == 0:
            assert images.shape == (0, FEATURES)
            empty += 1
            noise += ((before - weights(model)) / 0.1).tolist()
        optimizer.zero_grad()
    assert empty == drawn[:60].count(0) > 10
    sigma = 0.8 * optimizer.noise_multiplier  # of a batch that expects one
    assert kstest(noise, "norm", args=(0, sigma)).pvalue > 1e-3
    assert kstest(noise, "norm", args=(0, sigma / 0.8)).pvalue < 1e-3  # the control


def test_a_delta_above_1_over_n_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(DataLensError, match=f"for {RECORDS} records"):
        private(delta=1.01 / RECORDS)
    private(delta=1.01 / RECORDS, allow_large_delta=True)
    private(delta=0.99 / RECORDS)


def test_batches_come_by_coins() -> None:
    made = private(loader=DataLoader(records(600), batch_size=60), epochs=20)
    sizes = [len(images) for _ in range(20) for images, _ in made.loader]
    inside = binom.ppf([5e-4, 1 - 5e-4], 600 * len(sizes), 0.1)
    assert inside[0] <= sum(sizes) <= inside[1]
    assert 0.6 < np.var(sizes) / (600 * 0.09) < 1.5  # 200 of them: five deviations either way
    assert not inside[0] <= 1.05 * sum(sizes) <= inside[1]  # the control


def test_two_passes_draw_different_batches() -> None:
    batches = private().loader
    first, second = ([images for images, _ in batches] for _ in range(2))
    assert any(
        a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_means_and_sums_of_losses_give_the_same_gradients(keep: float) -> None:
    """A mean is divided by the expected size; a sum is not, as Opacus has it."""
    moved = []
    for reduction, rate in (("mean", 0.1), ("sum", 0.01), ("sum", 0.1)):
        model = Stubborn()
        made = private(
            model,
            optimizer=torch.optim.SGD(model.parameters(), lr=rate),
            keep=keep,
            loss_reduction=reduction,
            noise=SeededFloatNoise(SECRET),
        )
        before = weights(model)
        train(made, 1, reduction)
        moved.append(weights(model) - before)
    assert torch.allclose(moved[0], moved[1], atol=1e-4)
    assert not torch.allclose(moved[0], moved[2], atol=1e-2)


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_opacus_divides_batches_for_memory(keep: float) -> None:
    after = []
    for most in (None, 3):
        made = private(keep=keep, noise=SeededFloatNoise(SECRET))
        if most is None:
            train(made, 2)
        else:
            with BatchMemoryManager(
                data_loader=made.loader, max_physical_batch_size=3, optimizer=made.optimizer
            ) as pieces:
                assert max(train(made, 2, loader=pieces)) == 3
        assert made.optimizer.steps_taken == 12
        after.append(weights(made.model))
    assert torch.allclose(after[0], after[1], atol=1e-4)
    assert not torch.allclose(after[0], weights(Stubborn()), atol=1e-2)


def sums_noised(made: Private) -> list[float]:
    """Norms of what is noised, step by step."""
    norms: list[float] = []
    noised = made.optimizer.add_noise

    def measured() -> None:
        sums = [p.summed_grad.flatten() for p in made.optimizer.params]
        norms.append(float(torch.cat(sums).norm()))
        noised()

    made.optimizer.add_noise = measured
    return norms


@pytest.mark.parametrize("stepped", [False, True])
def test_what_a_broken_pass_leaves_meets_no_other_batch(stepped: bool) -> None:
    """A record is in every batch: were two of them in one step, it would count twice."""

    def fresh() -> Private:
        return private(loader=DataLoader(records(4), batch_size=4))

    made, unbroken = fresh(), fresh()
    norms, expected = sums_noised(made), sums_noised(unbroken)
    train(unbroken, 1)
    with BatchMemoryManager(
        data_loader=made.loader, max_physical_batch_size=1, optimizer=made.optimizer
    ) as pieces:
        for _ in range(3):
            for number, (images, labels) in enumerate(pieces):
                if number == 2 and not stepped:
                    break
                nn.functional.cross_entropy(made.model(images), labels).backward()
                made.optimizer.step()
                made.optimizer.zero_grad()
                if number == 2:
                    break
        assert norms == []
        train(made, 1, loader=pieces)
    assert norms == pytest.approx(expected, rel=1e-4)


def test_a_piece_that_is_passed_over_is_refused() -> None:
    made = private(loader=DataLoader(records(8), batch_size=4))
    with BatchMemoryManager(
        data_loader=made.loader, max_physical_batch_size=1, optimizer=made.optimizer
    ) as pieces:
        turn = iter(pieces)
        next(turn)
        with pytest.raises(DataLensError, match="A piece of a batch was passed over"):
            next(turn)
    ahead = private(loader=DataLoader(records(8), batch_size=4, num_workers=1))
    with (
        BatchMemoryManager(
            data_loader=ahead.loader, max_physical_batch_size=1, optimizer=ahead.optimizer
        ) as pieces,
        pytest.raises(DataLensError, match="num_workers=0"),
    ):
        next(iter(pieces))


def test_a_loop_that_forgets_to_clear_is_not_harmed() -> None:
    after = []
    for clear in (True, False):
        made = private(noise=SeededFloatNoise(SECRET))
        for images, labels in made.loader:
            nn.functional.cross_entropy(made.model(images), labels).backward()
            made.optimizer.step()
            if clear:
                made.optimizer.zero_grad()
        after.append(weights(made.model))
    assert torch.equal(after[0], after[1])


def test_the_model_may_have_example_gradients_already() -> None:
    model = with_example_gradients(Stubborn(), "mean")
    made = private(model)
    assert made.model is model
    train(made, 1)
    with pytest.raises(DataLensError, match="loss_reduction='mean'"):
        private(with_example_gradients(Stubborn(), "mean"), loss_reduction="sum")


class Reshaping(Stubborn):
    """With a size that cannot be told of nothing."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.view(len(images), -1))


def test_opacus_s_own_module_takes_empty_batches_too() -> None:
    """It cannot compute on nothing, so that its place is taken by one that can."""
    theirs = GradSampleModule(Reshaping())
    with pytest.raises(RuntimeError):
        theirs(torch.zeros(0, FEATURES))
    made = private(theirs, loader=DataLoader(records(), batch_size=1))
    assert 0 in train(made, 1)


def test_opacus_s_accountants_may_watch() -> None:
    """And they count what ours has planned for."""
    made, theirs = private(keep=1.0), RDPAccountant()
    made.optimizer.attach_step_hook(theirs.get_optimizer_hook_fn(sample_rate=10 / RECORDS))
    train(made, 2)
    assert theirs.history == [(made.optimizer.noise_multiplier, 10 / RECORDS, 12)]


def test_bound_and_noise_stay_as_they_are_paid_for() -> None:
    """Opacus's schedules would change one and leave the other."""
    made = private(keep=1.0)
    for schedule in (ExponentialNoise, ExponentialGradClip):
        with pytest.raises(DataLensError, match="part of what is paid for"):
            schedule(made.optimizer, gamma=0.5).step()
    for name in ("keep", "variant", "max_grad_norm", "noise_multiplier"):
        with pytest.raises(DataLensError, match=f"{name} is part of what is paid for"):
            setattr(made.optimizer, name, 1.0)
    assert train(made, 1)


def step_on(made: Private, batch: Any) -> None:
    nn.functional.cross_entropy(made.model(batch[0]), batch[1]).backward()
    made.optimizer.step()


def test_a_batch_is_good_for_one_step() -> None:
    """The price of a step is that of records drawn anew."""
    made = private()
    batch = next(iter(made.loader))
    step_on(made, batch)
    with pytest.raises(DataLensError, match="a step on this batch already"):
        step_on(made, batch)
    kept = private()
    batches = list(kept.loader)
    for batch in batches:
        step_on(kept, batch)
    with pytest.raises(DataLensError, match="drawn anew"):
        step_on(kept, batches[0])


def test_a_pass_without_its_way_back_is_noticed() -> None:
    """Opacus then has no gradients any more, and steps would be noise alone."""
    made = private()
    turn = iter(made.loader)
    images, _ = next(turn)
    made.model(images)
    with pytest.raises(DataLensError, match="Nothing has gone back"):
        step_on(made, next(turn))


class Lazy(Stubborn):
    """With a layer that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Linear(2, 2)


class Scaled(Stubborn):
    """With a parameter that is one number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Scale()

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.scale(super().forward(images))
        return found


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_a_parameter_may_be_a_single_number(keep: float) -> None:
    model = Scaled()
    train(private(model, keep=keep), 1)
    assert float(model.scale.by.detach()) != 2.0


def test_a_layer_that_nobody_uses_is_named() -> None:
    made = private(Lazy())
    with pytest.raises(DataLensError, match="2 of 6 parameters got no gradient"):
        step_on(made, next(iter(made.loader)))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_parameters_in_half_precision_are_refused(kind: torch.dtype) -> None:
    with pytest.raises(DataLensError, match=rf"all torch\.float64, got {kind}"):
        private(Stubborn().to(kind))
    mixed = Stubborn()
    mixed.second.double()
    with pytest.raises(DataLensError, match=r"got torch\.float32, torch\.float64"):
        private(mixed)


@pytest.mark.parametrize("keep", [0.8, 1.0])
def test_gradients_in_half_precision_are_bounded_all_the_same(keep: float) -> None:
    """By autocast, whose gradients are coarse: the bound is on what is added."""
    norms = []
    for seed in range(20):
        made = private(keep=keep, noise=SeededFloatNoise(SECRET), max_grad_norm=1e-3)
        measured = sums_noised(made)
        chance = torch.Generator().manual_seed(seed)
        next(iter(made.loader))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = made.model(torch.randn(1, FEATURES, generator=chance))
        nn.functional.cross_entropy(scores.float(), torch.tensor([0])).backward()
        made.optimizer.step()
        norms += measured
    assert 0.9 * math.sqrt(keep) * 1e-3 < max(norms) <= math.sqrt(keep) * 1e-3


def test_optimisers_that_cannot_be_private_are_refused() -> None:
    model = Stubborn()
    with pytest.raises(DataLensError, match="private already"):
        private(model, optimizer=private(model).optimizer)
    model = Stubborn()
    with pytest.raises(DataLensError, match="LBFGS"):
        private(model, optimizer=torch.optim.LBFGS(model.parameters()))


def test_randomness_is_the_system_s() -> None:
    """Whatever seeds were set."""
    after = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        made = private(secret=None)
        assert isinstance(made.optimizer._noise, FloatSecureNoise)
        train(made, 1)
        after.append(weights(made.model))
    assert not torch.equal(after[0], after[1])


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.SyncBatchNorm(8)])
def test_batch_norm_is_refused_and_its_replacement_named(norm: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 8), norm, nn.Linear(8, CLASSES))
    with pytest.raises(
        DataLensError, match=r"1: batch norm .*torch\.nn\.GroupNorm, .*frozen network"
    ):
        private(model)
    for p in norm.parameters():
        p.requires_grad_(False)  # its statistics would mix examples all the same
    trained = [p for p in model.parameters() if p.requires_grad]
    with pytest.raises(DataLensError, match="GroupNorm"):
        private(model, optimizer=torch.optim.SGD(trained, lr=0.1))
    grouped = nn.Sequential(nn.Linear(FEATURES, 8), nn.GroupNorm(2, 8), nn.Linear(8, CLASSES))
    train(private(grouped), 1)


def test_what_opacus_cannot_do_is_refused() -> None:
    with pytest.raises(DataLensError, match="cannot be trained privately"):
        private(nn.LSTM(FEATURES, 4))


def test_other_parameters_are_refused() -> None:
    model = Stubborn()
    for parameters in (Stubborn().parameters(), list(model.parameters())[:1]):
        with pytest.raises(DataLensError, match="no others"):
            private(model, optimizer=torch.optim.SGD(parameters, lr=0.1))


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(records())


@pytest.mark.parametrize(
    "loader, says",
    [
        (DataLoader(Stream(), batch_size=10), "stream of records"),
        (DataLoader(records(), batch_size=100), "only 60 records"),
        (DataLoader(records(), batch_size=None), "sampler of its own"),
        ([records()], "must be a torch.utils.data.DataLoader, got list"),
        (None, "got NoneType"),
        (
            DataLoader(records(), batch_size=5, sampler=WeightedRandomSampler([1.0] * 60, 60)),
            "sampler of its own",
        ),
    ],
)
def test_loaders_that_cannot_be_sampled_are_refused(loader: Any, says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        private(loader=loader)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"epochs": 0},
        {"epochs": 1.5},
        {"keep": 0.0},
        {"keep": 1.5},
        {"max_grad_norm": 0.0},
        {"max_grad_norm": math.nan},
        {"epsilon": "1"},
        {"keep": None},
        {"max_grad_norm": "1"},
        {"loss_reduction": "none"},
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DataLensError, match=next(iter(changes))):
        private(**changes)


@pytest.mark.parametrize(
    "budget, q, steps, looser",
    [(1.0, 0.01, 1000, 1.05), pytest.param(0.2, 128 / 60000, 469, 3.0, marks=pytest.mark.slow)],
)
def test_noise_is_the_least_that_an_accountant_allows(
    budget: float, q: float, steps: int, looser: float
) -> None:
    """By the tightest of ours; and Opacus's two accountants agree with the two of ours."""
    noise = least_noise(budget, 1e-5, sampling_probability=q, steps=steps)

    def cost(accountant: Any, share: float = 1.0) -> float:
        event = SampledGaussianRelease(
            what="dp-sgd", sampling_probability=q, noise_multiplier=share * noise
        )
        return epsilon_of([Charge(event=event, count=steps)], 1e-5, accountant)

    assert set(VALID) == {"pld", "certified"}
    assert cost("pld") <= budget < cost("pld", 0.999)
    theirs = [renyi, tight] = [RDPAccountant(), PRVAccountant()]
    for accountant in theirs:
        accountant.history = [(noise, q, steps)]
    assert cost("certified") == pytest.approx(renyi.get_epsilon(1e-5), rel=0.02)
    distance = abs(cost("pld") - tight.get_epsilon(1e-5, eps_error=0.01, delta_error=1e-7))
    assert distance < 0.02 < abs(cost("pld", 0.9) - cost("pld"))
    assert looser * budget < cost("certified") < cost("paper") <= cost("moments")
