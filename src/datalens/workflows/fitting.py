"""`datalens fit` and `classify`: from settings to a run folder, new or resumed."""

import fcntl
import hashlib
import json
import shutil
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from datalens.data import Records
from datalens.data.documents import reading
from datalens.ensemble import ALONE, Ranks
from datalens.errors import DataLensError, NotAdmitted
from datalens.privacy.ledger import ledger_name_for
from datalens.privacy.rounding import rounded_up
from datalens.synthesizers import METHODS
from datalens.synthesizers.learner import AnyLearner, read_config
from datalens.synthesizers.private_classifier import CLASSIFIERS, PrivateClassifier
from datalens.synthesizers.protocol import Synthesizer
from datalens.synthesizers.session import SEEDED, Member, Session, new_secret
from datalens.workflows.presets import load_preset
from datalens.workflows.previews import Previews, write_sheet
from datalens.workflows.progress import Listener, Watcher, marked, tidy_log
from datalens.workflows.report.public import write_report
from datalens.workflows.runs import check_product, keep_source
from datalens.workflows.source import Source


def make_synthesizer(
    method: str, *, preset: str, data_name: str, overrides: dict[str, Any]
) -> Synthesizer:
    """The method with its preset's settings, overridden by what was given explicitly."""
    if method not in METHODS:
        raise DataLensError(f"Unknown method {method!r}; there are {', '.join(METHODS)}.")
    values: dict[str, Any] = {}
    own = preset not in ("auto", "paper")
    if preset == "paper" and method != "datalens":
        raise DataLensError(f"The preset paper is for datalens; leave it out for {method}.")
    if method == "datalens" or own:
        values = load_preset(preset, data_name=data_name, epsilon=overrides.get("epsilon", 1.0))
    if own:
        with reading(Path(preset)):  # what is wrong with a preset is said of it
            budget = {"epsilon": 1.0} if METHODS[method].private else {}
            METHODS[method](**{**values, **budget})
    return METHODS[method](**{**values, **overrides})


def make_classifier(method: str, overrides: dict[str, Any]) -> PrivateClassifier:
    """The private classifier of this name."""
    if method not in CLASSIFIERS:
        raise DataLensError(f"Unknown method {method!r}; there are {', '.join(CLASSIFIERS)}.")
    return CLASSIFIERS[method](**overrides)


def fit_run(
    learner: AnyLearner,
    source: Source,
    out: Path,
    *,
    ledger: str | None,
    seed: int | None,
    allow_large_delta: bool = False,
    quiet: bool = False,
    ranks: Ranks = ALONE,
    listeners: Sequence[Listener] = (),
) -> dict[str, Any]:
    """A new run in a folder that does not exist yet; the result is rank 0's."""
    if ranks.rank == 0 and out.exists():
        raise DataLensError(f"{out} exists already; name another --out, or go on with --resume.")
    source.check_outside(out)
    secret = ranks.tell("secret", new_secret(seed))
    records = source.share(learner, ranks, secret)
    plan = learner.resolve(records.public)  # all that can be wrong is wrong before this point
    ranks.agree("the configuration", plan.sha256[:16])
    if ranks.rank > 0:
        return _follow(learner, records, secret, out, ranks)
    watcher = Watcher(
        epsilon=learner.settings.epsilon, log=out / "log.jsonl", quiet=quiet, listeners=listeners
    )
    session = Session.start(
        ledger=ledger or ledger_name_for(records.public.name),
        folder=out / "internal",
        seed=seed,
        private=learner.private,
        observer=watcher,
        secret=secret,
        ranks=ranks,
        named=ledger is not None,
        allow_large_delta=allow_large_delta,
        files=source.fingerprint(),
    )
    watcher.say(f"{records.public.in_words()}; ledger {session.ledger.path.stem}.")
    if source.assumed:
        watcher.say(source.assumed)
    keep_source(out, source)
    (out / "config.toml").write_text(plan.to_toml())
    try:
        return _run(learner, records, session, out, watcher)
    except NotAdmitted:
        shutil.rmtree(out)  # no run has begun
        raise


def resume_run(
    source: Source,
    out: Path,
    *,
    given: Mapping[str, Any] | None = None,
    ledger: str | None = None,
    seed: int | None = None,
    quiet: bool = False,
    ranks: Ranks = ALONE,
    kinds: Mapping[str, type[AnyLearner]] = METHODS,
    listeners: Sequence[Listener] = (),
) -> dict[str, Any]:
    """Go on with a run of one of these kinds that was stopped, with the settings it had.

    Settings, a ledger or a seed may be given again, if they are the same. The run folder need only
    be on rank 0's machine.
    """
    kept = _kept(out, ledger, seed) if ranks.rank == 0 else {}
    kept = json.loads(ranks.tell("resume", json.dumps(kept).encode()))
    text, secret = kept["config"], bytes.fromhex(kept["secret"])
    try:
        config = tomllib.loads(text)
        with reading(out / "config.toml"):
            check_product(out, config["method"], kinds)
        learner = kinds[config["method"]](**config["settings"])
    except (KeyError, TypeError):
        raise DataLensError(f"{out / 'config.toml'} is no configuration of a run.") from None
    again = kinds[config["method"]](**{**config["settings"], **(given or {})}).settings
    for name in given or ():
        had = getattr(learner.settings, name)
        if getattr(again, name) != had:
            _refuse_another(out, f"{name} {had!r:.50}")
    with reading(out / "config.toml"):
        source = source.as_started(config)
    records = source.share(learner, ranks, secret)
    with reading(out / "config.toml"):
        resolved = learner.resolve(records.public).to_toml()
    if resolved != text:
        raise DataLensError(f"{out} was started on other data than {source.name}, or edited since.")
    if ranks.rank > 0:
        return _follow(learner, records, secret, out, ranks)
    watcher = Watcher(
        epsilon=learner.settings.epsilon, log=out / "log.jsonl", quiet=quiet, listeners=listeners
    )
    session = Session.resume(folder=out / "internal", observer=watcher, ranks=ranks)
    return _run(learner, records, session, out, watcher)


def _refuse_another(out: Path, had: str) -> NoReturn:
    raise DataLensError(
        f"{out} was started with {had}, which cannot change: a resumed run keeps its settings."
    )


def _kept(out: Path, ledger: str | None, seed: int | None) -> dict[str, str]:
    """What a run needs in order to go on, besides its ledger."""
    if (out / "internal").is_dir() and not (out / "config.toml").exists():
        raise DataLensError(
            f"{out} was stopped before it began, and has cost nothing; delete it and start again."
        )
    read_config(out)
    if (out / "certificate.json").exists():
        raise DataLensError(f"{out} is finished; there is nothing to resume.")
    session = Session.resume(folder=out / "internal")
    charged = session.ledger.path.stem.removesuffix(SEEDED)
    if ledger not in (None, charged):
        _refuse_another(out, f"the ledger {charged}")
    if seed is not None and new_secret(seed) != session.secret:
        _refuse_another(out, "another seed, or none")
    config = (out / "config.toml").read_text(encoding="utf-8")
    return {"config": config, "secret": session.secret.hex()}


def _follow(
    learner: AnyLearner, records: Records, secret: bytes, out: Path, ranks: Ranks
) -> dict[str, Any]:
    """A rank other than 0: it works as the others do, and leaves nothing but checkpoints."""
    member = Member(secret=secret, folder=out / "internal", ranks=ranks)
    learner.fit(records, session=member)
    ranks.tell("saved", b"")  # if rank 0 cannot save, all end alike
    return {}


def _run(
    learner: AnyLearner, records: Records, session: Session, out: Path, watcher: Watcher
) -> dict[str, Any]:
    started = time.monotonic()
    private = learner.private and session.noise.kind != "seeded"
    watcher.listeners.append(Previews(learner, out / "samples.png", private=private))

    def publish() -> dict[str, str]:
        """Picture and report are made before the run is settled, which vouches for them."""
        written = [write_report(out, learner)]
        if isinstance(learner, Synthesizer):
            write_sheet(learner, out / "samples.png", _caption(learner.certificate))
            written.append(out / "samples.png")
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in written}

    with alone_in(out), marked(out):
        for part in (out / "internal").rglob("*.part"):  # a crash left it half written
            part.unlink()
        (out / "log.jsonl").touch()
        tidy_log(out / "log.jsonl")  # what is wrong with it must not be found at the end
        try:
            with watcher.watching():
                learner.fit(records, session=session, publish=publish)
        finally:
            tidy_log(out / "log.jsonl")  # a run that stops or fails leaves no signs of life
        learner.save(out)
    seconds = time.monotonic() - started
    session.ranks.tell("saved", b"")
    timings = {"seconds": seconds, "ranks": session.ranks.size, "bytes": session.ranks.traffic}
    (out / "internal" / "timings.json").write_text(json.dumps(timings) + "\n")
    return {**summary(out, learner), "seconds": round(seconds, 1)}


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Nobody else works on this run meanwhile; the lock goes with the process that holds it."""
    with (out / "internal" / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataLensError(f"Another process is working on {out}; wait for it.") from None
        yield


def summary(out: Path, learner: AnyLearner) -> dict[str, Any]:
    """What `fit --json` ends with, except the time."""
    certificate = learner.certificate
    return {
        "run": str(out),
        "run_id": certificate["run"],
        "method": certificate["method"],
        "private": certificate["private"],
        "accountant": certificate["budget"].get("accountant"),
        "epsilon": certificate["epsilon"],
        "epsilon_replace": certificate["epsilon_replace"],
        "delta": certificate["delta"],
        "noise": certificate["noise"]["kind"],
        "releases": certificate["releases"],
        "steps": certificate["facts"]["steps"],
        "teachers": certificate["facts"]["teachers"],
        "left_over": _left_over(certificate),
    }


def _caption(certificate: dict[str, Any]) -> str:
    """What stands under the samples: their epsilon, or that they have none."""
    caption = f"{certificate['method']} on {certificate['data']['name']}"
    if certificate["epsilon"]:
        spent = certificate["epsilon"][certificate["budget"]["accountant"]]
        cost = f"epsilon {rounded_up(spent)}, delta {rounded_up(certificate['delta'], 6)}"
        caption = f"{cost}: {caption}"
    if not certificate["private"]:
        why = "seeded" if certificate["noise"]["kind"] == "seeded" else "nothing was protected"
        caption = f"NOT PRIVATE ({why})  {caption}"
    return caption


def _left_over(certificate: dict[str, Any]) -> int:
    """Records that reach no teacher, because shards are of one size."""
    teachers = certificate["facts"]["teachers"]
    return certificate["data"]["n_records"] % teachers if teachers else 0
