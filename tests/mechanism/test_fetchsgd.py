"""FetchSGD: a ballot's sketch, with all rows and collisions, is no longer than is claimed."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.errors import DataLensError
from datalens.mechanism import fetchsgd
from datalens.mechanism.ballots import BallotRule
from datalens.mechanism.fetchsgd import FetchSGD, usual_bound
from datalens.mechanism.noise import SeededNoise
from datalens.mechanism.sketch import hashes, longest, sketch
from datalens.mechanism.topagg import TopAgg

from .test_ballots import NASTY

D, K, ROWS, COLUMNS = 6, 2, 3, 3


def made(**changes: Any) -> FetchSGD:
    given = {"n_values": D, "top_k": K, "rows": ROWS, "columns": COLUMNS, "levels": 1, **changes}
    ballot = BallotRule(
        top_k=given.pop("top_k"), levels=given.pop("levels"), clip=1e-9, clip_mode="raw"
    )
    sizes = (given["n_values"], given["rows"], given["columns"])
    return FetchSGD(**{"ballot": ballot, "bound": usual_bound(ballot, *sizes), **given})


def cast(compressor: FetchSGD, gradients: torch.Tensor, seed: int = 0) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    shape = (*gradients.shape[:-1], compressor.dice)
    return compressor.sketches(gradients, torch.rand(shape, generator=chance))


def every_ballot() -> torch.Tensor:
    """All ballots of at most K signs on D values, as gradients that are clipped to them."""
    signs = itertools.product([-1.0, 0.0, 1.0], repeat=D)
    return torch.tensor([s for s in signs if sum(map(abs, s)) <= K])


def norms(sketches: torch.Tensor) -> torch.Tensor:
    return (sketches.long() ** 2).sum(-1)


def squared_apart(sketches: torch.Tensor) -> int:
    different = sketches.unique(dim=0).double()
    return round(float(torch.cdist(different, different).max() ** 2))


def test_brute_force_over_all_ballots() -> None:
    """With a bound that no ballot exceeds, and with one that some do."""
    found = hashes(D, ROWS, COLUMNS)
    most = longest(found, width=ROWS * COLUMNS, top_k=K)
    all_ = cast(made(bound=100), every_ballot())
    assert norms(all_).max() <= most  # `longest` holds for every ballot
    assert norms(all_).max() > ROWS * K  # and there are collisions for it to count
    lower = made(bound=2)
    assert norms(cast(lower, every_ballot())).max() <= 4
    assert squared_apart(cast(lower, every_ballot())) <= lower.squared_sensitivity == 16
    usual = made()
    assert squared_apart(cast(usual, every_ballot())) <= usual.squared_sensitivity


def test_naive_sensitivities_are_exceeded() -> None:
    """The mutants: 2 sqrt(k) forgets the rows, 2 sqrt(rows k) the collisions."""
    found = squared_apart(cast(made(bound=100), every_ballot()))
    for claim in (4 * K, 4 * ROWS * K):
        assert found > claim
    assert squared_apart(cast(made(columns=D, bound=100), every_ballot())) == 4 * ROWS * K


def test_without_its_bound_the_sensitivity_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    lower = made(bound=2)
    monkeypatch.setattr(fetchsgd, "within", lambda ballots, bound: ballots)
    assert squared_apart(cast(lower, every_ballot())) > lower.squared_sensitivity


sizes = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)).map(
    lambda s: (s[0], min(s[0], s[1]), min(s[0], s[2]))
)
"""Values, columns and top k."""


@settings(max_examples=200, deadline=None)
@given(
    size=sizes,
    rows=st.sampled_from([1, 3, 5]),
    levels=st.sampled_from([1, 7]),
    bound=st.none() | st.integers(1, 30),
    data=st.data(),
)
def test_a_sketch_is_bounded_whatever_the_gradient(
    size: tuple[int, int, int], rows: int, levels: int, bound: int | None, data: st.DataObject
) -> None:
    n_values, columns, top_k = size
    entry = st.sampled_from(NASTY) | st.floats(width=32)
    values = data.draw(st.lists(entry, min_size=n_values, max_size=n_values))
    changes = {"n_values": n_values, "columns": columns, "top_k": top_k, "rows": rows}
    compressor = made(**changes, levels=levels, **({"bound": bound} if bound else {}))
    gradient = torch.tensor([values])
    cast_ = cast(compressor, gradient, seed=data.draw(st.integers(0, 2**31)))
    assert cast_.shape == (1, rows * columns)
    assert 4 * int(norms(cast_).max()) <= compressor.squared_sensitivity
    most = longest(compressor.hashes, width=rows * columns, top_k=top_k)
    free = cast(made(**changes, bound=10**6), gradient)
    assert int(norms(free).max()) <= most


def test_longest_is_reached_by_the_worst_ballot_of_one_row() -> None:
    """So it could not be smaller: where there is one row, somebody can cast that ballot."""
    found = hashes(60, 1, 8)
    order = np.argsort(found.cells[0].numpy() % 8, kind="stable")
    loads = np.bincount(found.cells[0].numpy(), minlength=8)
    fullest = np.argsort(-loads, kind="stable")
    chosen = [p for cell in fullest for p in order if found.cells[0][p] == cell][:20]
    places = torch.tensor(chosen)
    worst = sketch(places[None], found.signs[0][places][None], found, width=8)
    assert int(norms(worst)) == longest(found, width=8, top_k=20) > 20


def test_the_usual_bound_is_the_tighter_one_and_seldom_exceeded() -> None:
    """At most 1 in 1,000 ballots abstain; figures as in docs/methods/compressors.md."""
    compressor = made(n_values=784, top_k=200, rows=3, columns=392)
    most = longest(compressor.hashes, width=3 * 392, top_k=200)
    assert (3 * 200, compressor.bound**2, most) == (600, 676, 1200)
    gradients = torch.randn(5000, 784, generator=torch.Generator().manual_seed(0))
    sketches = cast(compressor, gradients)
    assert (norms(sketches) == 0).double().mean() <= 1e-3
    tight = made(n_values=784, top_k=200, rows=3, columns=392, bound=24)  # sqrt(3 * 200) = 24.5
    assert (norms(cast(tight, gradients)) == 0).double().mean() > 0.5  # the control


def test_without_collisions_the_top_of_the_tally_comes_back() -> None:
    compressor = made(columns=D)
    gradients = torch.randn(50, 1, D, generator=torch.Generator().manual_seed(0))
    dice = torch.zeros(50, 1, K)
    sketched = torch.zeros(1, compressor.width(D), dtype=torch.int64)
    plain = torch.zeros(1, D, dtype=torch.int64)
    compressor.cast(gradients, dice, into=sketched)
    compressor.ballot.cast(gradients, dice, into=plain)
    kept = plain.abs().topk(K, dim=-1).indices
    right = torch.zeros_like(plain).scatter(-1, kept, plain.gather(-1, kept))
    assert compressor.decode(sketched.numpy()).tolist() == right.tolist()


def test_a_heavy_value_is_found_among_collisions() -> None:
    compressor = made(n_values=100, top_k=1, rows=5, columns=20)
    places = torch.tensor([[17]])
    heavy = 1000 * sketch(places, torch.ones(1, 1).long(), compressor.hashes, width=100)
    noisy = heavy + torch.randint(-50, 50, heavy.shape, generator=torch.Generator().manual_seed(0))
    (decoded,) = compressor.decode(noisy.numpy())
    assert np.flatnonzero(decoded).tolist() == [17] and abs(decoded[17] - 1000) < 50


def test_the_printed_order_moves_further_than_it_says() -> None:
    """Algorithm 7 picks before there is noise: an entry that falls out takes its count along."""
    before = np.array([1000, 999, 0, 0])
    after = before + np.array([-1, 1, 0, 0])  # one ballot of k = 1 that becomes another

    def top_1(tally: np.ndarray) -> np.ndarray:
        return np.where(np.abs(tally) == np.abs(tally).max(), tally, 0)

    assert ((after - before) ** 2).sum() <= 4 * 1
    moved = ((top_1(after) - top_1(before)) ** 2).sum()
    assert moved > 4 * 1 * 100_000
    assert ((made().decode(np.zeros((1, 9), dtype=np.int64))) == 0).all()


@pytest.mark.parametrize("rows", [1, 3, 5, 9])
def test_the_noise_of_a_decoded_entry_is_what_is_said(rows: int) -> None:
    """20,000 values each: within 4 %, and not within 4 % of what a mean would have, but for 1."""
    compressor = made(n_values=20_000, columns=20_000, top_k=20_000, rows=rows, bound=10**6)
    noise = SeededNoise(b"s").draw((1, rows * 20_000), sigma=1000.0, key="x")
    found = compressor.decode(noise).std() / 1000
    assert found == pytest.approx(compressor.spread, rel=0.04)
    if rows > 1:
        assert found != pytest.approx(rows**-0.5, rel=0.04)


def test_noise_is_in_the_sketch_before_anything_is_picked() -> None:
    topagg = TopAgg(ballot=made(), n_teachers=5, sigma=3.0, quorum=None)
    tally = topagg.empty_tally(2, D).numpy()
    assert tally.shape == (2, ROWS * COLUMNS)
    release = tally + topagg.draw(tally.shape, noise=SeededNoise(b"s"), key="votes/0")
    assert np.count_nonzero(release) > ROWS * COLUMNS  # noise on all cells, not on the top k
    direction = topagg.direction(release)
    assert direction.shape == (2, D) and (np.count_nonzero(direction, axis=1) <= K).all()


@pytest.mark.parametrize("bad", [{"rows": 2}, {"rows": 101}, {"columns": 7}, {"bound": 0}])
def test_impossible_ones_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DataLensError):
        made(**{"bound": 10, **bad})
