"""The verifier against the owner's whole ledger: edits, deletions and cuts made later are seen."""

import hashlib
import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datalens.data import Records
from datalens.errors import DataLensError
from datalens.privacy.certificate import certificate_sha256
from datalens.privacy.chain import FORMAT, GENESIS, digest, link
from datalens.privacy.ledger import Ledger, ledger_path
from datalens.privacy.recompute import certified, curve, gaussian, paper, rho
from datalens.privacy.replan import sensitivities
from datalens.privacy.signing import SIGNATURE, public_key
from datalens.privacy.verify import contradictions, unchecked, verify
from datalens.privacy.wording import source, statement
from datalens.synthesizers.class_gaussian import ClassGaussian
from datalens.synthesizers.datalens import DataLens
from datalens.workflows.fitting import fit_run
from datalens.workflows.source import Source


def fitted(folder: Path, epsilon: float = 1.0, delta: float = 1e-5) -> Path:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
    records = Records.from_arrays(images, np.arange(40) % 2, n_classes=2)
    method = ClassGaussian(epsilon=epsilon, delta=delta)
    method.fit(records, ledger="owned", allow_large_delta=True).save(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path, own_home: Path) -> Path:
    """The second of three runs on one ledger."""
    fitted(tmp_path / "before")
    run = fitted(tmp_path / "run")
    fitted(tmp_path / "after")
    return run


def change(run: Path, edit: Callable[[sqlite3.Connection], object]) -> list[str]:
    path = ledger_path("owned")
    with sqlite3.connect(path) as database:
        edit(database)
    database.close()
    return verify(run, ledger=path)


def test_an_untouched_ledger_holds(run: Path) -> None:
    assert change(run, lambda database: None) == []


def rehash(database: sqlite3.Connection, start: int) -> None:
    """What a careful forger does after an edit: make the chain fit again."""
    rows = database.execute("SELECT row, run, key, body, hash FROM entries ORDER BY row").fetchall()
    previous = rows[start - 2][4]
    for row, name, key, body, _ in rows[start - 1 :]:
        previous = link(previous, digest(name, key, body))
        database.execute("UPDATE entries SET hash = ? WHERE row = ?", (previous, row))


def less_spent(database: sqlite3.Connection, row: int) -> None:
    (body,) = database.execute("SELECT body FROM entries WHERE row = ?", (row,)).fetchone()
    told = json.loads(body)
    told["charge"]["sigma"] *= 10
    text = json.dumps(told, sort_keys=True)
    database.execute("UPDATE entries SET body = ? WHERE row = ?", (text, row))


def delete_and_renumber(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM entries WHERE row <= 4")
    database.execute("UPDATE entries SET row = row - 4")
    database.execute("UPDATE entries SET hash = '' WHERE row = 1")


EDITS: dict[str, Callable[[sqlite3.Connection], Any]] = {
    "a row edited": lambda d: less_spent(d, 2),
    "a row of this run edited": lambda d: less_spent(d, 6),
    "a row edited and the chain made to fit": lambda d: (less_spent(d, 2), rehash(d, 2)),
    "a row deleted": lambda d: d.execute("DELETE FROM entries WHERE row = 3"),
    "the last rows cut off": lambda d: d.execute("DELETE FROM entries WHERE row >= 7"),
    "a whole earlier run deleted": delete_and_renumber,
    "everything deleted": lambda d: d.execute("DELETE FROM entries"),
    "two rows swapped": lambda d: (
        d.execute("UPDATE entries SET row = 99 WHERE row = 2"),
        d.execute("UPDATE entries SET row = 2 WHERE row = 3"),
        d.execute("UPDATE entries SET row = 3 WHERE row = 99"),
    ),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_every_later_change_is_seen(
    run: Path, edit: Callable[[sqlite3.Connection], object]
) -> None:
    assert change(run, edit)


def test_rows_cut_off_after_the_certificate_are_seen_by_a_later_one(
    run: Path, tmp_path: Path
) -> None:
    """An early certificate cannot know of them: it still holds. The last one sees the cut."""
    cut = "DELETE FROM entries WHERE row >= 10"
    assert change(run, lambda d: d.execute(cut)) == []
    assert verify(tmp_path / "after", ledger=ledger_path("owned"))


def test_the_writer_refuses_an_altered_ledger_too(run: Path) -> None:
    ledger = Ledger(ledger_path("owned"))
    change(run, lambda d: less_spent(d, 2))
    for refused in (lambda: ledger.reserve("next", [], facts={}), lambda: Ledger(ledger.path)):
        with pytest.raises(DataLensError, match="altered: row 2"):
            refused()


def test_the_extract_tells_nothing_of_other_runs(run: Path) -> None:
    text = (run / "ledger.json").read_text()
    rows = json.loads(text)["rows"]
    own = json.loads((run / "certificate.json").read_text())["run"]
    others = [row for row in rows if row.get("run") != own]
    assert [set(row) for row in others] == [{"row", "digest"}] * 4
    for other in {row.run for row in Ledger(ledger_path("owned")).rows()} - {own}:
        assert other not in text


def test_a_charge_cannot_hide_among_the_digests(run: Path) -> None:
    """Rows of a run are numbered, so showing one of them as a digest leaves a gap."""
    extract = json.loads((run / "ledger.json").read_text())
    row = extract["rows"][5]
    body = json.dumps(row["body"], sort_keys=True)
    extract["rows"][5] = {"row": 6, "digest": digest(row["run"], row["key"], body)}
    (run / "ledger.json").write_text(json.dumps(extract))
    wrong = verify(run)
    assert any("Rows of this run are missing" in sentence for sentence in wrong)
    assert not any("does not end in the hash" in sentence for sentence in wrong)


def test_a_row_cannot_say_one_thing_and_prove_another(run: Path) -> None:
    """With the true digest beside a forged body, the chain's head would still be right."""
    extract = json.loads((run / "ledger.json").read_text())
    certificate = json.loads((run / "certificate.json").read_text())
    for row in extract["rows"]:
        if "body" in row:
            body = json.dumps(row["body"], sort_keys=True)
            row["digest"] = digest(row["run"], row["key"], body)
    for charge in [
        *(row["body"]["charge"] for row in extract["rows"] if "charge" in row.get("body", {})),
        *(c for row in extract["rows"] for c in row.get("body", {}).get("plan", [])),
        *certificate["mechanisms"],
    ]:
        charge["sigma"] *= 100
    (run / "ledger.json").write_text(json.dumps(extract))
    (run / "certificate.json").write_text(json.dumps(certificate))
    assert any("a field 'digest' that DataLens does not write" in said for said in verify(run))


Change = Callable[[dict[str, Any], list[dict[str, Any]]], None]


def forged(run: Path, change: Change) -> list[str]:
    """Certificate and own rows changed, then everything made to fit again, as an owner could."""
    certificate = json.loads((run / "certificate.json").read_text())
    extract = json.loads((run / "ledger.json").read_text())
    others = [row for row in extract["rows"] if "digest" in row]
    own = [row for row in extract["rows"] if "body" in row]
    change(certificate, own)
    charges = [row["body"]["charge"] for row in own if row["body"]["kind"] == "spend"]
    certificate["releases"] = sum(charge["count"] for charge in charges)
    restate(certificate, charges)
    rechained(run, certificate, own, others)
    return verify(run)


def rechained(
    run: Path,
    certificate: dict[str, Any],
    own: list[dict[str, Any]],
    others: list[dict[str, Any]],
) -> None:
    """Both files, with every hash and number in the chain computed anew."""
    own[-1]["body"]["certificate"] = certificate_sha256(certificate)
    head, rows = GENESIS, [*others, *own]
    for number, row in enumerate(own):
        row["body"]["number"] = number
    for number, row in enumerate(rows, start=1):
        row["row"] = number
        text = json.dumps(row.get("body"), sort_keys=True)
        head = link(
            head, row["digest"] if "digest" in row else digest(row["run"], row["key"], text)
        )
    certificate["ledger"] = {"rows": len(rows), "head": head}
    (run / "ledger.json").write_text(json.dumps({"format": FORMAT, "rows": rows}))
    (run / "certificate.json").write_text(json.dumps(certificate))


def restate(certificate: dict[str, Any], charges: list[dict[str, Any]]) -> None:
    """Every epsilon and the statement, as the forged charges would have them."""
    delta = certificate["delta"]
    total = rho(charges, "squared_sensitivity")
    certificate["epsilon"] |= {
        "certified": certified(curve(charges), delta),
        "paper": paper(curve(charges), delta),
        "gaussian": gaussian(total, delta),
    }
    certificate["epsilon_replace"] = certified(curve(charges, replaced=True), delta)
    certificate["statement"] = statement(
        private=True,
        epsilon=certificate["epsilon"]["certified"],
        delta=delta,
        records=certificate["data"]["n_records"],
        noise="exact",
    )


def charges_of(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All three places where a run says what it charged."""
    spent = [row["body"]["charge"] for row in rows if row["body"]["kind"] == "spend"]
    return [*spent, *rows[0]["body"]["plan"], *certificate["mechanisms"]]


def with_all(**values: Any) -> Change:
    def change(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        for charge in charges_of(certificate, rows):
            charge.update(values)

    return change


def votes_with(**values: Any) -> Change:
    def change(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        for charge in charges_of(certificate, rows):
            if charge["what"] == "votes":
                charge.update(values)

    return change


def louder(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    for charge in charges_of(certificate, rows):
        charge["sigma"] *= 100


def fewer_entries(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    votes_with(squared_sensitivity=4, squared_sensitivity_replace=4)(certificate, rows)
    for mechanism in certificate["mechanisms"]:
        if mechanism["what"] == "votes":
            mechanism["parameters"]["top_k"] = 1


def without(what: str) -> Change:
    def change(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        rows[:] = [r for r in rows if r["body"].get("charge", {}).get("what") != what]
        plan = rows[0]["body"]["plan"]
        rows[0]["body"]["plan"] = [charge for charge in plan if charge["what"] != what]
        kept = [m for m in certificate["mechanisms"] if m["what"] != what]
        certificate["mechanisms"] = kept

    return change


def one_step_less(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """A charge left out, and the certificate's count lowered to fit."""
    del rows[-2]
    for mechanism in certificate["mechanisms"]:
        if mechanism["what"] == "votes":
            mechanism["count"] -= 5


def one_step_more(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Charged and counted, but not set aside."""
    more = {**rows[-2], "key": "spend/votes/more", "body": dict(rows[-2]["body"])}
    rows.insert(-1, more)
    for mechanism in certificate["mechanisms"]:
        if mechanism["what"] == "votes":
            mechanism["count"] += 5


def unpaid(*kinds: str, leaving: int = 0) -> Change:
    """Reserved, but all charges of these kinds left out, up to a few."""

    def change(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        for what in kinds:
            own = [r for r in rows if r["body"].get("charge", {}).get("what") == what]
            dropped = own[leaving:]
            rows[:] = [row for row in rows if row not in dropped]
            for mechanism in certificate["mechanisms"]:
                if mechanism["what"] == what:
                    mechanism["count"] = len(own) - len(dropped)
        certificate["mechanisms"] = [m for m in certificate["mechanisms"] if m["count"]]
        certificate["releases"] = sum(m["count"] for m in certificate["mechanisms"])

    return change


def loose_delta(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    certificate["delta"] = certificate["budget"]["delta"] = 0.9


FORGERIES: dict[str, Change] = {
    "a hundred times the noise": louder,
    "a ballot of one entry": fewer_entries,
    "one charge a step": votes_with(count=1),
    "no votes": without("votes"),
    "no sums": without("class-sums"),
    "one step less": one_step_less,
    "one step more": one_step_more,
    "a round of clusters unpaid": unpaid("cluster-sums", leaving=2),
    "all clusters unpaid, not their spread": unpaid("cluster-sums"),
    "moments unpaid, not their clusters": unpaid("second-moments"),
    "gradients unpaid": unpaid("gradient-sums"),
    "nothing counted": with_all(count=0),
    "counts of a part": with_all(count=0.001),
    "counts of True": with_all(count=True),
    "sigma without end": with_all(sigma=1e150),
    "another delta": loose_delta,
}


@pytest.fixture
def voted(tmp_path: Path) -> Path:
    return with_votes(tmp_path / "voted")


def with_votes(folder: Path, **more: Any) -> Path:
    chance = np.random.default_rng(0)
    images = chance.integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
    records = Records.from_arrays(images, np.arange(60) % 3, n_classes=3)
    made = DataLens(
        epsilon=3.0,
        n_teachers=6,
        steps=3,
        batch_size=5,
        top_k=4,
        latent=4,
        teacher_warm_up=1,
        clusters=2,
        label_steps=2,
        **more,
    )
    made.fit(records, ledger="owned").save(folder)
    return folder


def test_what_a_crash_keeps_from_being_bought_is_missed_only_where_votes_went_on(
    voted: Path, tmp_path: Path
) -> None:
    lost = unpaid("second-moments", "cluster-sums", "cluster-moments")
    assert forged(voted, lost) == []
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
    records = Records.from_arrays(images, np.arange(60) % 3, n_classes=3)
    made = DataLens(epsilon=3.0, clusters=2, label_steps=2)
    made.fit(records, ledger="other").save(tmp_path / "quiet")
    assert verify(tmp_path / "quiet") == []
    assert any("fewer" in said for said in forged(tmp_path / "quiet", lost))


def test_a_forger_who_changes_nothing_is_believed(voted: Path) -> None:
    """The control: what the others are refused for is what they changed."""
    assert forged(voted, lambda certificate, rows: None) == []


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_files_that_contradict_each_other_are_refused(voted: Path, forgery: Change) -> None:
    assert forged(voted, forgery)


@pytest.mark.parametrize(
    "compressor, what", [("d2pfed", "rotated-votes"), ("fetchsgd", "sketched-votes")]
)
def test_another_compressor_s_bound_is_the_configuration_s(
    compressor: str, what: str, tmp_path: Path
) -> None:
    run = with_votes(tmp_path / "run", compressor=compressor)
    assert verify(run) == []

    def shorter(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """Ballots of norm 1, consistently everywhere but in the configuration."""
        for charge in charges_of(certificate, rows):
            if charge["what"] == what:
                charge |= {"squared_sensitivity": 4, "squared_sensitivity_replace": 4}
        for mechanism in certificate["mechanisms"]:
            if mechanism["what"] == what:
                mechanism["parameters"]["bound"] = 1

    def as_signs(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """The same releases under the name of plain votes."""
        for charge in charges_of(certificate, rows):
            if charge["what"] == what:
                charge["what"] = "votes"
        for mechanism in certificate["mechanisms"]:
            if mechanism["what"] == "votes":
                quarter = int(mechanism["squared_sensitivity"]) // 4
                mechanism["parameters"] = {"top_k": quarter, "levels": 1}

    for forgery in (shorter, as_signs, without(what)):
        assert any("does not follow from config.toml" in said for said in forged(run, forgery))


def test_what_is_said_of_a_file_can_be_printed(voted: Path) -> None:
    """A file cannot move the cursor or fake a verdict by what its fields are called."""
    for word in ("\ud800", "votes\nThe certificate holds.", "\x1b[2J"):
        extract = json.loads((voted / "ledger.json").read_text())
        own = next(row for row in extract["rows"] if "body" in row)
        own["body"]["plan"][0]["what"] = word
        (voted / "ledger.json").write_text(json.dumps(extract))
        wrong = verify(voted)
        assert wrong and all(sentence.isprintable() for sentence in wrong)


@pytest.mark.parametrize("epsilon, delta", [(9000.0, 1e-5), (3000.0, 0.5), (1e-4, 0.3)])
def test_honest_certificates_far_from_the_usual_hold(
    tmp_path: Path, epsilon: float, delta: float
) -> None:
    assert verify(fitted(tmp_path / "run", epsilon, delta)) == []


def test_without_its_configuration_no_certificate_holds(run: Path) -> None:
    """What it states stands in the ledger too, but not what bounds and noise follow from."""
    (run / "generator.safetensors").unlink()
    assert verify(run) == verify(run / "certificate.json") == []
    assert "generator.safetensors, which is not here" in unchecked(run)
    (run / "config.toml").unlink()
    (said,) = verify(run)
    assert "config.toml is not here" in said
    assert contradictions(run) == []


@pytest.mark.parametrize("what", ["n_records", "name"])
def test_without_its_configuration_nothing_else_can_be_stated(run: Path, what: str) -> None:
    (run / "config.toml").unlink()
    edit_json(run / "certificate.json", lambda c: c["data"].update({what: 7, "name": "others"}))
    assert any("another description of the data" in said for said in contradictions(run))


def test_without_its_configuration_another_budget_is_seen(run: Path) -> None:
    (run / "config.toml").unlink()
    edit_json(run / "certificate.json", lambda c: c["budget"].update(epsilon=0.1))
    assert any("another budget than was reserved" in said for said in contradictions(run))


def edit_json(file: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    body = json.loads(file.read_text())
    edit(body)
    file.write_text(json.dumps(body))


def appended(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b" ")


def another_generator(run: Path) -> None:
    """One that was trained without noise, say, under a certificate that names it."""
    appended(run / "generator.safetensors")
    new = hashlib.sha256((run / "generator.safetensors").read_bytes()).hexdigest()
    edit_json(run / "certificate.json", lambda c: c.update(generator_sha256=new))


def in_text(old: str, new: str) -> Callable[[Path], object]:
    def edit(run: Path) -> None:
        text = (run / "certificate.json").read_text()
        assert old in text
        (run / "certificate.json").write_text(text.replace(old, new, 1))

    return edit


def in_certificate(edit: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda run: edit_json(run / "certificate.json", edit)


def in_extract(edit: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], object]:
    return lambda run: edit_json(run / "ledger.json", lambda extract: edit(extract["rows"]))


FILE_FORGERIES: dict[str, Callable[[Path], object]] = {
    "another generator": lambda run: appended(run / "generator.safetensors"),
    "another generator, and its hash": another_generator,
    "another picture": lambda run: appended(run / "samples.png"),
    "another report": lambda run: appended(run / "report.html"),
    "another configuration": lambda run: appended(run / "config.toml"),
    "no configuration": lambda run: (run / "config.toml").unlink(),
    "a configuration that is a link to nothing": lambda run: (
        (run / "config.toml").unlink(),
        (run / "config.toml").symlink_to(run / "nothing"),
    ),
    "versions": in_certificate(lambda c: c["versions"].update(torch="9.9")),
    "one version more": in_certificate(lambda c: c["versions"].update(audit="1.0")),
    "a field of its own": in_certificate(lambda c: c.update(epsilon_person=0.01)),
    "a note": in_certificate(lambda c: c.update(note="Also (0.01, 0)-DP per person.")),
    "a fact of its own": in_certificate(lambda c: c["facts"].update(audited=True)),
    "a second epsilon": in_certificate(lambda c: c.update({"epsilon\u200b": {"certified": 0.1}})),
    "a field in the extract": lambda run: edit_json(
        run / "ledger.json", lambda extract: extract.update(checked=True)
    ),
    "a field in a row": in_extract(lambda rows: rows[-1]["body"].update(note="checked")),
    "epsilon as text": in_certificate(lambda c: c["epsilon"].update(certified="1")),
    "epsilon NaN": in_certificate(lambda c: c["epsilon"].update(certified=math.nan)),
    "epsilon beyond all numbers": in_text('"certified":', '"certified": 1e400, "paper_":'),
    "epsilon a number": in_certificate(lambda c: c.update(epsilon=1.0)),
    "no epsilon_replace": in_certificate(lambda c: c.pop("epsilon_replace")),
    "delta -0.0": in_certificate(lambda c: c.update(delta=-0.0)),
    "a key twice": in_text('"delta":', '"delta": 0.5, "delta":'),
    "a letter that looks alike": in_text("differentially", "differenti\u0430lly"),
    "a method that looks alike": in_certificate(lambda c: c.update(method="cl\u0430ss-gaussian")),
    "a count of true": in_certificate(lambda c: c["mechanisms"][0].update(count=True)),
    "a count of 2^60": in_certificate(lambda c: c["mechanisms"][0].update(count=2**60)),
    "private as 1": in_certificate(lambda c: c.update(private=1)),
    "another run's name": in_certificate(lambda c: c.update(run="0" * 12)),
    "sigma a list": in_certificate(lambda c: c["mechanisms"][0].update(sigma=[1.0])),
    "a bound that is no integer": in_certificate(
        lambda c: c["mechanisms"][0]["parameters"].update(bound=1.5)
    ),
    "a name with a mark that turns text round": in_certificate(
        lambda c: c["data"].update(name="\u202etset")
    ),
}
"""By whoever has the published folder, and no more than that: no hash is computed anew but one."""


@pytest.fixture(scope="module")
def published_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that may be published, on a ledger of its own."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATALENS_HOME", str(folder / "home"))
        chance = np.random.default_rng(0)
        images = chance.integers(0, 256, (40, 8, 8), dtype=np.uint8)
        np.savez(folder / "owned.npz", images=images, labels=np.arange(40) % 2)
        source = Source(name=str(folder / "owned.npz"), n_classes=2)
        fit_run(ClassGaussian(epsilon=1.0), source, folder / "run", ledger=None, seed=None)
    return folder


@pytest.fixture
def published(published_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(published_once / "run", tmp_path / "public", ignore=lambda *_: ["internal"])
    monkeypatch.setenv("DATALENS_HOME", str(published_once / "home"))
    return tmp_path / "public"


def test_all_that_is_published_is_vouched_for(published: Path) -> None:
    key = public_key(ledger_path("owned").parent)
    assert verify(published, ledger=ledger_path("owned"), key=key) == []
    left = unchecked(published, ledger=ledger_path("owned"), key=key)
    assert left == ["log.jsonl, which the ledger does not vouch for"]
    for name in ("samples.png", "report.html"):
        (published / name).unlink()
        assert f"{name}, which is not here" in unchecked(published)
    assert verify(published) == []


@pytest.mark.parametrize("forgery", FILE_FORGERIES.values(), ids=FILE_FORGERIES.keys())
def test_whoever_has_the_folder_cannot_change_it(
    published: Path, forgery: Callable[[Path], object]
) -> None:
    forgery(published)
    with suppress(DataLensError):  # a file that cannot be read is refused in one sentence
        assert verify(published)
        assert all(said.isprintable() for said in verify(published))


def test_a_signature_is_the_owner_s_over_these_bytes(published: Path, tmp_path: Path) -> None:
    own, stranger = public_key(ledger_path("owned").parent), public_key(tmp_path / "stranger")
    assert own == public_key(ledger_path("owned").parent) != stranger
    assert verify(published, key=own) == []
    assert any("not signed by the owner" in said for said in verify(published, key=stranger))
    with pytest.raises(DataLensError, match="--key takes a public key"):
        verify(published, key="AAAA")
    rows = json.loads((published / "ledger.json").read_text())["rows"]
    certificate = json.loads((published / "certificate.json").read_text())
    certificate["versions"]["torch"] = "9.9"
    rechained(published, certificate, rows, [])
    assert verify(published) == []  # whoever computes every hash anew is believed, but ...
    assert any("not signed" in said for said in verify(published, key=own))
    assert verify(published, ledger=ledger_path("owned"))
    (published / SIGNATURE).unlink()
    assert any(SIGNATURE in said for said in verify(published, key=own))


def times(factor: float, what: str) -> Change:
    """All three places where a run states this noise, all hashes and every epsilon."""

    def change(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        for charge in charges_of(certificate, rows):
            if charge["what"] == what:
                charge["sigma"] *= factor

    return change


def with_bounds(what: str, squared: int, **parameters: int) -> Change:
    """A smaller bound at the true noise, which then seems to cost next to nothing."""

    def change(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        replaced = sensitivities(what, parameters)[1]
        for charge in charges_of(certificate, rows):
            if charge["what"] == what:
                charge |= {"squared_sensitivity": squared, "squared_sensitivity_replace": replaced}
        for mechanism in certificate["mechanisms"]:
            if mechanism["what"] == what:
                mechanism["parameters"] = parameters

    return change


def another_noise(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    certificate["noise"] = {"kind": "float-secure", "source": source("float-secure", ["gaussian"])}
    rows[0]["body"]["noise"] = "float-secure"


def another_method(certificate: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    certificate["method"] = rows[0]["body"]["method"] = "datalens2"


DERIVED: dict[str, Change] = {
    "noise of class sums doubled": times(2, "class-sums"),
    "noise of second moments a fifth more": times(1.2, "second-moments"),
    "noise of class sums a little more": times(1.002, "class-sums"),
    "noise of clusters doubled": times(2, "cluster-sums"),
    "noise of their spread doubled": times(2, "cluster-moments"),
    "noise of the labeller doubled": times(2, "gradient-sums"),
    "noise of votes doubled": times(2, "votes"),
    "class sums bounded by 10": with_bounds("class-sums", 100, bound=10),
    "second moments bounded by 10": with_bounds("second-moments", 10_000, bound=10),
    "rows of clusters bounded by 10": with_bounds("cluster-sums", 125, bound=10, weight=5),
    "their spread bounded by 10": with_bounds("cluster-moments", 10_000, bound=10),
    "gradients bounded by 10": with_bounds("gradient-sums", 10_000, features=10, residuals=10),
    "another kind of noise": another_noise,
    "a method that nobody knows": another_method,
}


@pytest.mark.parametrize("forgery", DERIVED.values(), ids=DERIVED.keys())
def test_bounds_and_noise_are_those_that_follow(voted: Path, forgery: Change) -> None:
    """An honest program with a wrong bound, or an owner who computes every hash anew."""
    assert forged(voted, forgery)


@pytest.mark.parametrize("name", ["certified", "paper", "gaussian"])
@pytest.mark.parametrize("share, holds", [(1.0, True), (1 - 5e-6, False), (0.5, False)])
def test_an_epsilon_a_little_too_small_is_refused(
    run: Path, name: str, share: float, holds: bool
) -> None:
    certificate = json.loads((run / "certificate.json").read_text())
    extract = json.loads((run / "ledger.json").read_text())["rows"]
    charges = [r["body"]["charge"] for r in extract if "charge" in r.get("body", {})]
    restate(certificate, charges)
    certificate["epsilon"][name] *= share
    if name == "certified":
        certificate["statement"] = statement(
            private=True,
            epsilon=certificate["epsilon"]["certified"],
            delta=certificate["delta"],
            records=40,
            noise="exact",
        )
    others = [row for row in extract if "digest" in row]
    rechained(run, certificate, [row for row in extract if "body" in row], others)
    assert (verify(run) == []) is holds


def test_a_row_behind_the_end_of_a_run_is_refused(run: Path) -> None:
    rows = json.loads((run / "ledger.json").read_text())["rows"]
    certificate = json.loads((run / "certificate.json").read_text())
    behind = {"row": len(rows) + 1, "digest": "0" * 64}
    certificate["ledger"] = {
        "rows": len(rows) + 1,
        "head": link(certificate["ledger"]["head"], behind["digest"]),
    }
    (run / "ledger.json").write_text(json.dumps({"format": FORMAT, "rows": [*rows, behind]}))
    (run / "certificate.json").write_text(json.dumps(certificate))
    assert any("goes on after the run's end" in said for said in verify(run))


def test_the_verifier_shares_no_code_with_the_ledger() -> None:
    """It may import the file format's sentences, errors, and libraries: nothing that writes."""
    import ast

    import datalens.privacy.verify as module

    root = Path(str(module.__file__)).parents[1]

    def shared(file: str) -> set[str]:
        nodes = ast.walk(ast.parse((root / file).read_text()))
        imported = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        return {name for name in imported if name.startswith("datalens")}

    names = {"fields", "rechain", "recompute", "recost", "reloss", "replan", "signing", "wording"}
    own = {f"datalens.privacy.{name}" for name in names}
    bare = {"datalens.data.documents", "datalens.errors"}
    assert shared("privacy/verify.py") <= bare | own
    for file in ("data/documents", *(f"privacy/{name}" for name in names)):
        words = {"datalens.privacy.rounding"} if file.endswith("wording") else set()
        assert shared(f"{file}.py") <= {"datalens.errors"} | own | words
    assert shared("privacy/rounding.py") == set()  # how figures in those words are written
