"""Forgeries, one a row: what is changed, in which run, what is computed anew, what verify says.

Each is tried with nothing but the folder. Those whose hashes were all computed anew are tried
with the owner's key, and with the owner's ledger, as well: there none may hold.
"""

import copy
import math
from typing import Any, NamedTuple

from .forger import (
    Change,
    Forger,
    about,
    again,
    appended,
    both,
    bounded,
    everywhere,
    lower,
    method,
    put,
    setting,
    unspent,
)


class Forgery(NamedTuple):
    name: str
    run: str
    how: bool
    change: Change
    said: str | None


PLAIN = False
"""Nothing is computed anew."""
CHAIN = True
"""Every hash, number, sentence and epsilon is computed anew, as far as they were not changed."""
BELIEVED = None
"""Another honest run could have these very files: only the key or the ledger shows it."""

SUMS, SEEDED, PRIOR = "class-gaussian", "class-gaussian, seeded", "class-gaussian, bought"
PAPER, VOTES, ALONE = "class-gaussian, paper", "datalens, votes", "datalens, votes alone"
STEPS, JUDGE = "dpsgd, certified", "validation"

FIELD = "that DataLens does not write"
VALUE = "which DataLens does not write there"
LACKS = "lacks the field"
WORDS = "The certificate's words on"
VOUCHED = "The certificate is not the one that the ledger vouches for"
FILE = "is not the file that the certificate is about"
OTHER = "The ledger vouches for another configuration or product"
HEAD = "does not end in the hash certified"
ORDER = "does not go from the run's reservation over charges to its end"
RESERVED = "than was reserved"
TRULY = "does not repeat its configuration truly"
FOLLOWS = "does not follow from config.toml"
GONE = "config.toml is not here"
UNKNOWN = "is not one of DataLens"
FEWER = "fewer"
EPSILON = "epsilon (certified) is"
DAMAGED = "has been altered or damaged"


def double(value: float) -> float:
    return value * 2


def half(value: float) -> float:
    return value / 2


def scaled(what: str, factor: float) -> Change:
    return everywhere(what, sigma=lambda sigma: sigma * factor)


def no_config(forger: Forger) -> None:
    (forger.folder / "config.toml").unlink()


def data(**values: Any) -> Change:
    """In certificate and reservation."""

    def change(forger: Forger) -> None:
        for body in (forger.certificate, forger.reserved):
            body["data"].update(values)

    return change


def delta(forger: Forger) -> None:
    """In certificate and reservation."""
    forger.certificate["delta"] = 0.01
    for body in (forger.certificate, forger.reserved):
        body["budget"]["delta"] = 0.01


def noise(kind: str, private: bool = True) -> Change:
    def change(forger: Forger) -> None:
        forger.certificate["noise"]["kind"] = forger.reserved["noise"] = kind
        forger.certificate["private"] = private

    return change


def renamed(forger: Forger) -> None:
    for row in (forger.certificate, *forger.own):
        row["run"] = "0" * 12


def hidden(forger: Forger) -> None:
    """A charge shown as a row of another run, and the rest numbered anew."""
    forger.own.pop(2)
    forger.others.append({"row": 0, "digest": "0" * 64})


def swapped(forger: Forger) -> None:
    forger.own[1], forger.own[2] = forger.own[2], forger.own[1]


def keyed(key: str) -> Change:
    return lambda forger: forger.own[1].update(key=key)


def behind(forger: Forger) -> None:
    forger.behind = [{"row": 0, "digest": "0" * 64}]


def in_halves(forger: Forger) -> None:
    """Votes stated twice, with bounds of one sensitivity."""
    votes = forger.mechanism("votes")
    forger.certificate["mechanisms"].append(copy.deepcopy(votes) | {"count": 5})
    votes["count"] -= 5
    votes["parameters"] = {"top_k": 1, "levels": 2}


def as_signs(forger: Forger) -> None:
    """Another compressor's releases under the name of plain votes."""
    for charge in forger.charges("rotated-votes"):
        charge["what"] = "votes"
    mechanism = forger.mechanism("votes")
    quarter = int(mechanism["squared_sensitivity"]) // 4
    mechanism["parameters"] = {"top_k": quarter, "levels": 1}


def as_laplace(forger: Forger) -> None:
    for charge in forger.charges("real-votes"):
        scale = charge.pop("sigma")
        del charge["squared_sensitivity"], charge["squared_sensitivity_replace"]
        charge |= {"event": "laplace", "sensitivity": 1, "sensitivity_replace": 1, "scale": scale}


def row(place: int, **values: Any) -> Change:
    return lambda forger: forger.own[place]["body"].update(values)


def vouching(**files: str) -> Change:
    names = {name.replace("_", "."): value for name, value in files.items()}
    return lambda forger: forger.settled["files"].update(names)


def config(**values: Any) -> Change:
    return lambda forger: forger.config.update(values)


def unvouched(name: str) -> Change:
    return lambda forger: forger.settled["files"].pop(name)


def parameter(what: str, **values: Any) -> Change:
    return lambda forger: forger.mechanism(what)["parameters"].update(values)


def dropped(what: str, **settings: Any) -> Change:
    """Neither reserved nor charged, and configured so."""
    return both(unspent(what, reserved=False), setting(**settings))


ALIKE = "cl\u0430ss-gaussian"
ENDLESS = 10**400
CRASH = ("second-moments", "cluster-sums", "cluster-moments")
LOST = unspent(*CRASH)

# fmt: off
ROWS: list[tuple[str, str, bool, Change, str | None]] = [
    # What is published is exchanged.
    ("another generator", SUMS, PLAIN, appended("generator.safetensors"), FILE),
    ("another classifier", STEPS, PLAIN, appended("classifier.safetensors"), FILE),
    ("another picture", SUMS, PLAIN, appended("samples.png"), FILE),
    ("another report", SUMS, PLAIN, appended("report.html"), FILE),
    ("another configuration", SUMS, PLAIN, config(method="dp-merf"), FILE),
    ("another generator and its hash", SUMS, PLAIN,
     both(appended("generator.safetensors"), put("", generator_sha256="0" * 64)), OTHER),
    ("another generator, all hashes", SUMS, CHAIN, appended("generator.safetensors"), BELIEVED),
    ("another report, all hashes", SUMS, CHAIN, appended("report.html"), BELIEVED),
    ("a product nobody vouches for", SUMS, CHAIN, unvouched("generator.safetensors"), OTHER),
    ("a configuration likewise", SUMS, CHAIN, unvouched("config.toml"), OTHER),
    ("a file that no run makes", SUMS, CHAIN, vouching(evil_safetensors="0" * 64), VALUE),
    ("the other kind of product", SUMS, CHAIN, vouching(classifier_safetensors="0" * 64), VALUE),
    ("a hash in capitals", SUMS, CHAIN, vouching(samples_png="A" * 64), VALUE),

    # Fields of the certificate.
    ("versions", SUMS, PLAIN, put("versions", torch="9.9"), VOUCHED),
    ("versions, all hashes", SUMS, CHAIN, put("versions", torch="9.9"), BELIEVED),
    ("a version that says something", SUMS, CHAIN, put("versions", torch="audited-2026"), VALUE),
    ("one version more", SUMS, CHAIN, put("versions", audit="1.0"), FIELD),
    ("a field of its own", SUMS, CHAIN, put("", epsilon_person=0.01), FIELD),
    ("a note", SUMS, CHAIN, put("", note="Also (0.01, 0)-DP per person."), FIELD),
    ("a fact of its own", SUMS, CHAIN, put("facts", audited=True), FIELD),
    ("a name with a space of no width", SUMS, CHAIN, put("", **{"epsilon\u200b": 0.1}), FIELD),
    ("a field less", SUMS, CHAIN, put("", epsilon_replace=...), LACKS),
    ("epsilon as text", SUMS, CHAIN, put("epsilon", certified="1"), VALUE),
    ("epsilon NaN", SUMS, CHAIN, put("epsilon", certified=math.nan), VALUE),
    ("epsilon infinite", SUMS, CHAIN, put("epsilon", certified=math.inf), VALUE),
    ("epsilon of 400 digits", SUMS, CHAIN, put("epsilon", certified=ENDLESS), VALUE),
    ("epsilon a number", SUMS, CHAIN, put("", epsilon=1.0), VALUE),
    ("epsilon by a name of its own", SUMS, CHAIN, put("epsilon", zcdp=0.1), VALUE),
    ("epsilon by losses", SUMS, CHAIN, put("epsilon", pld=0.1), "has other epsilons"),
    ("one epsilon less", SUMS, CHAIN, put("epsilon", paper=...), "has other epsilons"),
    ("epsilon 0.01 % low", SUMS, CHAIN, lower(1 - 1e-4), EPSILON),
    ("epsilon a little low", SUMS, CHAIN, lower(1 - 2e-6), EPSILON),
    ("epsilon a little low, votes", VOTES, CHAIN, lower(1 - 2e-6), EPSILON),
    ("epsilon a little low, Laplace", "pategan, Laplace", CHAIN, lower(1 - 2e-6), EPSILON),
    ("epsilon a little low, steps", STEPS, CHAIN, lower(1 - 2e-6), EPSILON),
    ("epsilon by losses a little low", "topagg", CHAIN, lower(1 - 2e-6, "pld"), "epsilon (pld) is"),
    ("epsilon 5 % high", SUMS, CHAIN, lower(1.05), BELIEVED),
    ("epsilon 20 % high", SUMS, CHAIN, lower(1.2), EPSILON),
    ("delta -0.0", SUMS, CHAIN, put("", delta=-0.0), "not those of a budget"),
    ("delta the certificate's alone", SUMS, CHAIN, put("", delta=0.01), "not those of a budget"),
    ("count true", SUMS, CHAIN, everywhere(count=True), VALUE),
    ("count 0", SUMS, CHAIN, everywhere(count=0), VALUE),
    ("count 0.001", SUMS, CHAIN, everywhere(count=0.001), VALUE),
    ("count a float", SUMS, CHAIN, everywhere(count=1.0), VALUE),
    ("count 2^60", SUMS, CHAIN, everywhere(count=2**60), FOLLOWS),
    ("count of 400 digits", SUMS, CHAIN, everywhere(count=ENDLESS), DAMAGED),
    ("private 1", SUMS, CHAIN, put("", private=1), VALUE),
    ("sigma a list", SUMS, CHAIN, everywhere(sigma=[1.0]), VALUE),
    ("sigma -1", SUMS, CHAIN, everywhere(sigma=-1.0), DAMAGED),
    ("sigma 1e150", SUMS, CHAIN, everywhere(sigma=1e150), DAMAGED),
    ("sigma an integer", ALONE, CHAIN,
     both(setting(sigma=50.0), everywhere("votes", sigma=50)), BELIEVED),
    ("a bound that is a float", SUMS, CHAIN, parameter("class-sums", bound=1.5), VALUE),
    ("shape of floats", SUMS, CHAIN, about(shape=[1.0, 8.0, 8.0]), VALUE),
    ("a letter that looks alike", SUMS, CHAIN, put("", statement="differenti\u0430lly"), WORDS),
    ("another relation", SUMS, CHAIN, put("", neighbouring="one pixel"), WORDS),
    ("another source of noise", SUMS, CHAIN, put("noise", source="a hardware source"), WORDS),
    ("what Gaussian is", SUMS, CHAIN, put("", gaussian_is="the bound that counts"), WORDS),
    ("another format", SUMS, CHAIN, put("", format="datalens-certificate-4"), WORDS),
    ("the number of releases", VOTES, CHAIN, put("", releases=1), "The number of releases"),
    ("votes stated in halves", VOTES, CHAIN, in_halves, "one kind of release twice"),
    ("steps", VOTES, CHAIN, put("facts", steps=1), TRULY),
    ("teachers", VOTES, CHAIN, put("facts", teachers=10), TRULY),
    ("label prior", VOTES, CHAIN, put("facts", label_prior="bought"), TRULY),
    ("an accuracy of its own", JUDGE, CHAIN, put("facts", accuracy=0.99), WORDS),
    ("what was validated", JUDGE, CHAIN, put("facts", covers="all records"), WORDS),

    # Who it is about.
    ("n in the certificate", SUMS, CHAIN, lambda f: f.certificate["data"].update(n_records=800),
     RESERVED),
    ("n also in the reservation", SUMS, CHAIN, data(n_records=800), TRULY),
    ("n everywhere", SUMS, CHAIN, about(n_records=800), BELIEVED),
    ("n everywhere, of samples", STEPS, CHAIN, about(n_records=800), FOLLOWS),
    ("n without configuration", SUMS, CHAIN, both(no_config, data(n_records=800)), GONE),
    ("name without configuration", SUMS, CHAIN, both(no_config, data(name="others")), GONE),
    ("delta without configuration", SUMS, CHAIN, both(no_config, delta), GONE),
    ("no configuration", SUMS, PLAIN, no_config, GONE),
    ("n 0", SUMS, CHAIN, about(n_records=0), VALUE),
    ("n -5", SUMS, CHAIN, about(n_records=-5), VALUE),
    ("no shape", "dpgan", CHAIN, about(shape=[8, 8]), VALUE),
    ("an image without pixels", "dpgan", CHAIN, about(shape=[1, 0, 0]), VALUE),
    ("an image without end", SUMS, CHAIN, about(shape=[1, 10**12, 8]), VALUE),
    ("no classes", SUMS, CHAIN, about(classes=[]), VALUE),
    ("a class twice", SUMS, CHAIN, about(classes=["0", "0", "1"]), VALUE),
    ("a class that turns text round", SUMS, CHAIN, about(classes=["0", "\u202e1", "2"]), VALUE),
    ("a name that turns text round", SUMS, CHAIN, about(name="\u202etset"), VALUE),
    ("a name of spaces", SUMS, CHAIN, about(name="  "), VALUE),
    ("another run's name", SUMS, PLAIN, put("", run="0" * 12), "rows of another run"),
    ("another run's name everywhere", SUMS, CHAIN, renamed, BELIEVED),

    # Which method.
    ("a method that looks alike", SUMS, CHAIN, both(method(ALIKE), scaled("class-sums", 2)), VALUE),
    ("a method in capitals", SUMS, CHAIN, method("Class-Gaussian"), VALUE),
    ("a method and a space", SUMS, CHAIN, method("class-gaussian "), VALUE),
    ("a method that nobody knows", SUMS, CHAIN, method("class-gaussian2"), UNKNOWN),
    ("class-gaussian as dp-merf", SUMS, CHAIN, method("dp-merf"), FIELD),
    ("class-gaussian as dcgan", SUMS, CHAIN, method("dcgan"), FIELD),
    ("class-gaussian as a classifier", SUMS, CHAIN, method("dpsgd"), LACKS),
    ("dpsgd as dpgan", STEPS, CHAIN, method("dpgan"), LACKS),
    ("dpsgd as topagg", STEPS, CHAIN, method("topagg"), DAMAGED),
    ("dpsgd as scatter, which costs the same", STEPS, CHAIN, method("scatter"), BELIEVED),
    ("dpsgd as a validation", STEPS, CHAIN, method("validation"), LACKS),
    ("pategan as gpate", "pategan", CHAIN, method("gpate"), FIELD),
    ("Gaussian noise as Laplace noise", "pategan", CHAIN, as_laplace, FOLLOWS),
    ("float-secure noise", SUMS, CHAIN, noise("float-secure"), "cannot have noise of the kind"),
    ("exact noise of steps", STEPS, CHAIN, noise("exact"), "cannot have noise of the kind"),
    ("a seeded run as an exact one", SEEDED, CHAIN, noise("exact"), BELIEVED),
    ("dcgan as a private run", "dcgan", CHAIN, noise("exact"), DAMAGED),
    ("private and seeded", SEEDED, CHAIN, put("", private=True), "its noise says otherwise"),

    # The plan: bounds, grids, noise, counts.
    ("sigma of votes halved", VOTES, CHAIN, scaled("votes", 0.5), FOLLOWS),
    ("sigma of votes doubled", VOTES, CHAIN, scaled("votes", 2), FOLLOWS),
    ("sigma of class sums doubled", SUMS, CHAIN, scaled("class-sums", 2), FOLLOWS),
    ("sigma of class sums, votes", VOTES, CHAIN, scaled("class-sums", 2), FOLLOWS),
    ("sigma of second moments", VOTES, CHAIN, scaled("second-moments", 1.2), FOLLOWS),
    ("sigma of clusters", VOTES, CHAIN, scaled("cluster-sums", 2), FOLLOWS),
    ("sigma of their spread", VOTES, CHAIN, scaled("cluster-moments", 2), FOLLOWS),
    ("sigma of the labeller", VOTES, CHAIN, scaled("gradient-sums", 2), FOLLOWS),
    ("sigma of class counts", PRIOR, CHAIN, scaled("class-counts", 2), FOLLOWS),
    ("sigma of features", "dp-merf", CHAIN, scaled("feature-sums", 2), FOLLOWS),
    ("sigma of histograms", "gpate", CHAIN, scaled("binned-votes", 2), FOLLOWS),
    ("sigma of checks", "gpate, checks", CHAIN, scaled("vote-checks", 2), FOLLOWS),
    ("sigma of counts", "pategan", CHAIN, scaled("real-votes", 2), FOLLOWS),
    ("sigma 0.03 % more", SUMS, CHAIN, scaled("second-moments", 1.0003), FOLLOWS),
    ("sigma 0.01 % less", SUMS, CHAIN, scaled("class-sums", 0.9999), FOLLOWS),
    ("noise of steps", STEPS, CHAIN, everywhere(noise_multiplier=double), FOLLOWS),
    ("noise of drawn critics", "gswgan", CHAIN, everywhere(noise_multiplier=double), FOLLOWS),
    ("noise of dpgan", "dpgan", CHAIN, everywhere("dp-sgd", noise_multiplier=double), FOLLOWS),
    ("a tenth of the batch", STEPS, CHAIN, everywhere(sampling_probability=half), FOLLOWS),
    ("class sums bounded by 10", SUMS, CHAIN, bounded("class-sums", bound=10), FOLLOWS),
    ("second moments by 10", SUMS, CHAIN, bounded("second-moments", bound=10), FOLLOWS),
    ("clusters by 10", VOTES, CHAIN, bounded("cluster-sums", bound=10, weight=5), FOLLOWS),
    ("their spread by 10", VOTES, CHAIN, bounded("cluster-moments", bound=10), FOLLOWS),
    ("gradients by 10", VOTES, CHAIN, bounded("gradient-sums", features=10, residuals=10), FOLLOWS),
    ("features by 10", "dp-merf", CHAIN, bounded("feature-sums", bound=10), FOLLOWS),
    ("ballots of one entry", VOTES, CHAIN, bounded("votes", top_k=1, levels=1), FOLLOWS),
    ("ballots on a grid as signs", "datalens, votes on a grid", CHAIN,
     bounded("votes", top_k=4, levels=1), FOLLOWS),
    ("rotated ballots of norm 1", "datalens, d2pfed", CHAIN,
     bounded("rotated-votes", bound=1), FOLLOWS),
    ("rotated ballots as signs", "datalens, d2pfed", CHAIN, as_signs, FOLLOWS),
    ("sketches of norm 1", "datalens, fetchsgd", CHAIN,
     bounded("sketched-votes", bound=1), FOLLOWS),
    ("one projection", "gpate", CHAIN, bounded("binned-votes", projected=1), FOLLOWS),
    ("a bound, not its sensitivity", SUMS, CHAIN, parameter("class-sums", bound=10), FOLLOWS),
    ("a sensitivity, not its bound", SUMS, CHAIN,
     everywhere("class-sums", squared_sensitivity=1), FOLLOWS),
    ("a gradient's share kept", "topagg", CHAIN, parameter("topagg-sgd", keep=0.1), FOLLOWS),
    ("one charge a step", VOTES, CHAIN, everywhere("votes", count=1), FOLLOWS),
    ("one step less", VOTES, CHAIN, unspent("votes", leaving=2), FEWER),
    ("a round of clusters less", VOTES, CHAIN, unspent("cluster-sums", leaving=2), FEWER),
    ("all clusters, not their spread", VOTES, CHAIN, unspent("cluster-sums"), FEWER),
    ("moments, not their clusters", VOTES, CHAIN, unspent("second-moments"), FEWER),
    ("moments and clusters, as by a crash", VOTES, CHAIN, LOST, BELIEVED),
    ("the same where no votes went on", "datalens", CHAIN, LOST, FEWER),
    ("no gradients", VOTES, CHAIN, unspent("gradient-sums"), FEWER),
    ("no sums", VOTES, CHAIN, unspent("class-sums", reserved=False), FOLLOWS),
    ("no votes", VOTES, CHAIN, unspent("votes", reserved=False), FOLLOWS),

    # The configuration, too.
    ("no votes configured", VOTES, CHAIN, dropped("votes", vote_share=0.0), FOLLOWS),
    ("no labeller configured", VOTES, CHAIN,
     dropped("gradient-sums", label_steps=0, label_share=0.0), FOLLOWS),
    ("no prior configured", PRIOR, CHAIN, dropped("class-counts", label_prior="uniform"), FOLLOWS),
    ("a budget raised", SUMS, CHAIN, setting(epsilon=5.0), FOLLOWS),
    ("a budget lowered", SUMS, CHAIN, setting(epsilon=2.0), "More was reserved than the budget"),
    ("a budget of votes lowered", ALONE, CHAIN, setting(epsilon=2.0), "More was reserved than"),
    ("half of a budget of losses", "dpsgd", CHAIN, setting(epsilon=0.5), "More was reserved than"),
    ("delta raised", SUMS, CHAIN, setting(delta=0.5), FOLLOWS),
    ("delta of votes raised", ALONE, CHAIN, setting(delta=0.5), BELIEVED),
    ("accountant gaussian", SUMS, CHAIN, setting(accountant="gaussian"), DAMAGED),
    ("accountant pld of sums", SUMS, CHAIN, setting(accountant="pld"), DAMAGED),
    ("accountant in capitals", SUMS, CHAIN, setting(accountant="Certified"), VALUE),
    ("accountant paper as certified", PAPER, CHAIN, setting(accountant="certified"), FOLLOWS),
    ("another share", SUMS, CHAIN, setting(sums_share=0.5), FOLLOWS),
    ("a share above 1", VOTES, CHAIN, setting(cluster_share=1.5), DAMAGED),
    ("more noise of steps", STEPS, CHAIN,
     both(setting(noise_multiplier=50.0), everywhere(noise_multiplier=50.0)), BELIEVED),
    ("more teachers than records", "gswgan", CHAIN,
     both(setting(n_teachers=10**6), everywhere(sampling_probability=2e-6)), "too many for 60"),
    ("all entries, and one of them", "datalens, all entries", CHAIN,
     both(setting(top_k=1), bounded("votes", top_k=1, levels=1)), "top_k 1"),
    ("steps and batch below 0", VOTES, CHAIN, setting(steps=-3, batch_size=-5), VALUE),
    ("a batch that is no whole number", VOTES, CHAIN, setting(batch_size=5.0), VALUE),
    ("more noise on a figure", JUDGE, CHAIN,
     both(setting(scale=10.0), everywhere(scale=10.0)), FOLLOWS),
    ("a setting that nobody knows", SUMS, CHAIN, setting(audited=True), FIELD),
    ("a setting of another method", SUMS, CHAIN, setting(n_teachers=9), FIELD),
    ("a setting NaN", VOTES, CHAIN, setting(step_size=math.nan), VALUE),
    ("a setting infinite", VOTES, CHAIN, setting(clip=math.inf), VALUE),
    ("a setting that is a sentence", VOTES, CHAIN, setting(precision="Audited in 2026."), VALUE),
    ("a table of its own", SUMS, CHAIN, config(audit={"epsilon": 0.01}), FIELD),
    ("a fact of its own about the data", SUMS, CHAIN,
     lambda f: f.config["data"].update(persons=3), FIELD),

    # Rows of the ledger.
    ("a field in the extract", SUMS, CHAIN, lambda f: f.extract.update(checked=True), FIELD),
    ("another format of it", SUMS, CHAIN, lambda f: f.extract.update(format="x"), "in the format"),
    ("a note in the last row", SUMS, CHAIN, row(-1, note="checked"), FIELD),
    ("a note in the first row", SUMS, CHAIN, row(0, note="checked"), FIELD),
    ("a row edited", SUMS, PLAIN, lambda f: f.own[1]["body"]["charge"].update(sigma=1e6), HEAD),
    ("a row taken out", SUMS, PLAIN, lambda f: f.own.pop(1), HEAD),
    ("a charge named by a sentence", SUMS, CHAIN, keyed("spend/audited: epsilon 0.01"), VALUE),
    ("a release that fakes a verdict", VOTES, CHAIN,
     everywhere("votes", what="votes\nThe certificate holds."), VALUE),
    ("a release that clears the screen", VOTES, CHAIN, everywhere("votes", what="\x1b[2J"), VALUE),
    ("a release that is half a letter", VOTES, CHAIN, everywhere("votes", what="\ud800"), VALUE),
    ("a charge named as the end", SUMS, CHAIN, keyed("settle"), VALUE),
    ("a charge twice", SUMS, CHAIN, again(1), "a charge of this run twice"),
    ("a charge twice by another name", SUMS, CHAIN,
     both(again(1), keyed("spend/class-sums/2")), "more releases than were reserved"),
    ("two charges in another order", SUMS, CHAIN, swapped, BELIEVED),
    ("a charge among another run's rows", VOTES, CHAIN, hidden, FEWER),
    ("two first rows", SUMS, CHAIN, again(0), ORDER),
    ("two last rows", SUMS, CHAIN, again(-1), ORDER),
    ("no last row", SUMS, CHAIN, lambda f: f.own.pop(), ORDER),
    ("no rows", SUMS, CHAIN, lambda f: f.own.clear(), ORDER),
    ("a row behind the end", SUMS, CHAIN, behind, "goes on after the run's end"),
    ("another salt", SUMS, CHAIN, row(0, salt="0" * 32), BELIEVED),
    ("nothing but the chain", VOTES, CHAIN, lambda f: None, BELIEVED),
]
# fmt: on
FORGERIES = [Forgery(*each) for each in ROWS]
