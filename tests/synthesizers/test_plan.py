"""Plans: every number fixed from public facts, the budget used up and never exceeded."""

import tomllib
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalens.data import PublicFacts, shard_size
from datalens.errors import DataLensError
from datalens.privacy.accountants import epsilon, total_rho
from datalens.privacy.replan import planned, sensitivities
from datalens.synthesizers.auto import VOTE_SHARE
from datalens.synthesizers.plan import ClassGaussianPlan, DataLensPlan
from datalens.synthesizers.settings import ClassGaussianSettings, DataLensSettings
from datalens.workflows.presets import PAPER_SETS, load_preset


def facts(n: int = 60_000, shape: tuple[int, int, int] = (1, 28, 28)) -> PublicFacts:
    return PublicFacts(name="x", n_records=n, shape=shape, class_names=tuple("0123456789"))


COLOUR = {"celeba-gender": 162_770, "celeba-hair": 96_000, "places365": 120_000}
"""Records of the paper's data sets of 64x64 pixels; of faces by hair about so many."""


def paper(name: str, budget: float, **changes: object) -> DataLensPlan:
    values = load_preset("paper", data_name=name, epsilon=budget)
    return DataLensPlan.resolve(
        DataLensSettings(**{**values, "epsilon": budget, **changes}),  # type: ignore[arg-type]
        facts(COLOUR[name], (3, 64, 64)) if name in COLOUR else facts(),
    )


@pytest.mark.parametrize("name", sorted(set(PAPER_SETS) - set(COLOUR)))
def test_the_papers_parameters_at_epsilon_1(name: str) -> None:
    plan = paper(name, 1.0)
    rule = plan.topagg.ballot
    assert (plan.topagg.n_teachers, rule.top_k, plan.topagg.sigma) == (4000, 200, 5000)
    # The paper clips the gradient of a mean over the batch, and ours is of the sum.
    assert (rule.clip, rule.clip_mode) == (pytest.approx(1e-5 * plan.batch_size), "raw")
    assert plan.start is None and plan.settings.discriminator == "reference"
    assert (plan.settings.generator, plan.settings.latent) == ("dcgan", 50)
    assert plan.settings.fakes == "own-labels" and plan.settings.starts == 50
    assert (plan.steps, plan.batch_size) == (127, 15)  # 1,909 releases pay for 127 steps of 15
    by_paper = paper(name, 1.0, accountant="paper")
    assert by_paper.steps == 86
    assert round(epsilon(by_paper.charges, 1e-5, "paper"), 3) == 0.996
    assert round(epsilon(by_paper.charges, 1e-5), 3) == 0.808


@pytest.mark.parametrize("name, latent", [("mnist", 50), ("fashion-mnist", 64)])
def test_the_papers_parameters_at_epsilon_10(name: str, latent: int) -> None:
    plan = paper(name, 10.0)
    assert (plan.topagg.ballot.top_k, plan.topagg.sigma) == (350, 900)
    assert plan.settings.latent == latent


@pytest.mark.parametrize(
    "name, budget, printed",
    [
        ("celeba-gender", 1.0, (6000, 27, 700, 9000, 0.85)),
        ("celeba-gender", 10.0, (6000, 27, 500, 700, 0.12)),
        ("celeba-hair", 1.0, (8000, 12, 700, 9000, 0.9)),
        ("celeba-hair", 10.0, (4000, 24, 500, 700, 0.25)),
        ("places365", 1.0, (6000, 20, 700, 9000, 0.85)),
        ("places365", 10.0, (6000, 20, 700, 700, 0.12)),
    ],
)
def test_the_papers_parameters_in_colour(
    name: str, budget: float, printed: tuple[float, ...]
) -> None:
    plan = paper(name, budget)
    votes = plan.topagg
    found = (votes.n_teachers, plan.batch_size, votes.ballot.top_k, votes.sigma, votes.quorum)
    assert found == printed and plan.settings.latent == 100
    assert shard_size(COLOUR[name], votes.n_teachers) == plan.batch_size


def test_every_value_of_a_preset_says_where_it_is_from() -> None:
    """The paper's where it prints one, else the public code's, else ours."""
    folder = files("datalens.workflows").joinpath("presets")
    names = [file.name for file in folder.iterdir() if file.name.endswith(".toml")]
    assert len(names) == 10
    for name in names:
        text = folder.joinpath(name).read_text()
        values = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert len(values) == len(tomllib.loads(text)) > 20
        for line in values:
            _, _, source = line.partition("# ")
            assert source.startswith(("paper", "public code", "ours")), line


def test_many_large_teachers_keep_their_moments_in_half_the_memory() -> None:
    assert paper("mnist", 1.0).settings.moments == "bfloat16"
    assert paper("mnist", 1.0, n_teachers=400).settings.moments == "float32"


@settings(max_examples=20, deadline=None)
@given(
    eps=st.floats(0.1, 20),
    n=st.integers(200, 100_000),
    shape=st.sampled_from([(1, 8, 8), (1, 28, 28), (3, 64, 64)]),
    accountant=st.sampled_from(["certified", "paper"]),
    prior=st.sampled_from(["uniform", "bought"]),
    warm=st.booleans(),
)
def test_auto_uses_the_budget_and_never_exceeds_it(
    eps: float,
    n: int,
    shape: tuple[int, int, int],
    accountant: str,
    prior: str,
    warm: bool,
) -> None:
    common = {"epsilon": eps, "accountant": accountant, "label_prior": prior}
    for plan in (
        DataLensPlan.resolve(DataLensSettings(**common, warm_start=warm), facts(n, shape)),  # type: ignore[arg-type]
        ClassGaussianPlan.resolve(ClassGaussianSettings(**common), facts(n, shape)),  # type: ignore[arg-type]
    ):
        spent = epsilon(plan.charges, 1e-5, accountant)  # type: ignore[arg-type]
        assert 0.99 * eps < spent <= eps
        again = type(plan).resolve(plan.settings, facts(n, shape))  # type: ignore[arg-type]
        assert again.to_toml() == plan.to_toml()  # a plan read back is the same plan


def test_there_are_votes_when_they_are_asked_for() -> None:
    def share(**given: Any) -> float | None:
        return DataLensPlan.resolve(
            DataLensSettings(epsilon=5.0, **given), facts()
        ).settings.vote_share

    assert share() == 0
    assert share(label_share=0.1, clusters=3, delta=1e-6) == 0
    for asked in (
        {"n_teachers": 50},
        {"threshold": False},
        {"discriminator": "reference"},
        {"compressor": "topagg"},
        {"compressor": "d2pfed"},
    ):
        assert share(**asked) == VOTE_SHARE
    assert share(vote_share=0.4) == 0.4
    assert share(warm_start=False) == 1
    for wrong in (
        {"vote_share": 0.0, "steps": 3},
        {"vote_share": 1.0},
        {"vote_share": 1e-9},
        {"warm_start": False, "vote_share": 0.5},
    ):
        with pytest.raises(DataLensError, match="vote_share"):
            share(**wrong)


def test_the_warm_start_takes_what_votes_leave_in_its_shares() -> None:
    def rho(**given: Any) -> dict[str, float]:
        settings = DataLensSettings(epsilon=5.0, clusters=20, **given)
        charges = DataLensPlan.resolve(settings, facts()).charges
        kinds = {charge.event.what for charge in charges}
        return {k: total_rho([c for c in charges if c.event.what == k]) for k in kinds}

    whole = rho(label_share=0.25, cluster_share=0.6)
    total = sum(whole.values())
    assert whole["gradient-sums"] == pytest.approx(0.25 * total, rel=1e-3)
    clusters = whole["cluster-sums"] + whole["cluster-moments"]
    assert clusters == pytest.approx(0.75 * 0.6 * total, rel=1e-3)
    half = rho(label_share=0.25, cluster_share=0.6, vote_share=0.5)
    assert half["gradient-sums"] == pytest.approx(whole["gradient-sums"] / 2, rel=1e-3)
    assert half["votes"] == pytest.approx(0.5 * total, rel=0.02)
    assert "gradient-sums" not in rho(label_share=0.0)


def test_a_step_pays_for_every_image() -> None:
    plan = DataLensPlan.resolve(
        DataLensSettings(epsilon=5.0, steps=7, batch_size=11, warm_start=False), facts()
    )
    (votes,) = plan.charges
    assert votes.count == 7 * 11
    mutant = votes.count // 11  # one charge a step instead of one an image
    claimed = epsilon([type(votes)(event=votes.event, count=mutant)], 1e-5)
    assert claimed < 0.6 * epsilon(plan.charges, 1e-5)


def test_given_sigma_fixes_the_steps_and_the_reverse() -> None:
    by_sigma = DataLensPlan.resolve(DataLensSettings(epsilon=5.0, sigma=900.0), facts())
    assert by_sigma.topagg.sigma == 900.0
    by_steps = DataLensPlan.resolve(DataLensSettings(epsilon=5.0, steps=9), facts())
    assert by_steps.steps == 9
    with pytest.raises(DataLensError, match="pays for"):
        DataLensPlan.resolve(DataLensSettings(epsilon=5.0, sigma=5.0), facts())


COMPRESSORS: dict[str, dict[str, Any]] = {
    "topagg": {},
    "d2pfed": {"levels": 33, "ballot_bound": 141},
    "fetchsgd": {"sketch_rows": 3, "sketch_columns": 392, "ballot_bound": 13},
}


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("asked", [{}, {"sigma": 900.0}, {"steps": 9}])
def test_a_compressor_is_complete_and_pays_its_own_price(name: str, asked: dict[str, Any]) -> None:
    own = DataLensSettings(epsilon=5.0, compressor=name, warm_start=False, **asked)  # type: ignore[arg-type]
    plan = DataLensPlan.resolve(own, facts())
    (votes,) = plan.charges
    decided = plan.settings.model_dump(include=set(COMPRESSORS["d2pfed"] | COMPRESSORS["fetchsgd"]))
    assert {k: v for k, v in decided.items() if v is not None} == COMPRESSORS[name]
    assert 0.98 * 5 < epsilon(plan.charges, 1e-5) <= 5
    told = tomllib.loads(plan.to_toml())
    again = DataLensPlan.resolve(DataLensSettings(**told["settings"]), facts())
    assert again.to_toml() == plan.to_toml()
    # the verifier's own view
    (what,) = planned(told) or {}
    assert what == votes.event.what
    expected = (votes.event.squared_sensitivity, votes.event.squared_sensitivity_replace)
    assert sensitivities(what, plan.parameters[what]) == expected
    assert planned(told)[what] == {  # type: ignore[index]
        "count": votes.count,
        "sigma": votes.event.sigma,
        **plan.parameters[what],
    }


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 64, 65])
def test_the_verifier_knows_the_highest_of_any_number_of_levels(levels: int) -> None:
    own = DataLensSettings(
        epsilon=5.0, compressor="d2pfed", levels=levels, steps=3, warm_start=False
    )
    plan = DataLensPlan.resolve(own, facts())
    decided = planned(tomllib.loads(plan.to_toml()))
    assert decided["rotated-votes"]["sigma"] == plan.charges[0].event.sigma  # type: ignore[index]


def test_the_usual_compressor_is_not_named_in_a_configuration() -> None:
    """So configurations from before there was a choice have the hash that they had."""
    for asked in ({}, {"compressor": "topagg"}):
        own = DataLensSettings(epsilon=5.0, steps=3, **asked)  # type: ignore[arg-type]
        assert "compressor" not in DataLensPlan.resolve(own, facts()).to_toml()
    other = DataLensSettings(epsilon=5.0, steps=3, compressor="d2pfed")
    assert "compressor" in DataLensPlan.resolve(other, facts()).to_toml()


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"levels": 5}, "levels means nothing"),
        ({"ballot_bound": 5}, "ballot_bound means nothing"),
        ({"compressor": "fetchsgd", "levels": 5}, "levels means nothing"),
        ({"compressor": "d2pfed", "keep_all": True}, "keep_all means nothing"),
        ({"compressor": "d2pfed", "quantise": False}, "quantise means nothing"),
        ({"compressor": "d2pfed", "ballot_bound": 2}, "all rounding; use at least"),
        ({"compressor": "fetchsgd", "sketch_rows": 2}, "odd number of rows"),
        ({"compressor": "fetchsgd", "sketch_columns": 785}, "785 columns"),
        ({"compressor": "d2pfed", "sigma": 1.0}, "pays for 0 steps.*ballot_bound 141"),
    ],
)
def test_settings_of_another_compressor_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataLensError, match=sentence):
        DataLensPlan.resolve(DataLensSettings(epsilon=5.0, **wrong), facts())


def test_unknown_presets_are_named() -> None:
    with pytest.raises(DataLensError, match="Unknown preset"):
        load_preset("best", data_name="mnist", epsilon=1.0)
