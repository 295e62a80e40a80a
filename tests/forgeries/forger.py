"""What a forger does who has a published folder: change it, and make every number fit again."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from datalens.data.documents import read_json, read_toml
from datalens.privacy.certificate import certificate_sha256
from datalens.privacy.chain import FORMAT, GENESIS, digest, link
from datalens.privacy.recompute import certified, curve, largest_order
from datalens.privacy.recost import _epsilon
from datalens.privacy.replan import sensitivities
from datalens.privacy.wording import PRIVATE_KINDS, source, statement

Row = dict[str, Any]


class Forger:
    """A run folder taken apart. Changes are made to the attributes, or to files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = read_json(folder / "certificate.json")
        self.config = read_toml(folder / "config.toml")
        rows = read_json(folder / "ledger.json")["rows"]
        self.others = [row for row in rows if "digest" in row]
        self.own = [row for row in rows if "body" in row]
        self.behind: list[Row] = []
        """Rows after the run's last."""
        self.extract: Row = {}
        """More fields of ledger.json."""
        self.kept: list[tuple[str, Row]] = []
        """What is put into the certificate after all else is computed anew."""
        self.share = 1.0
        """Of each epsilon that is stated, or of this accountant's."""
        self.lowered = ""

    @property
    def settings(self) -> Row:
        return self.config["settings"]

    @property
    def reserved(self) -> Row:
        return self.own[0]["body"]

    @property
    def settled(self) -> Row:
        return self.own[-1]["body"]

    def charges(self, what: str | None = None) -> Iterator[Row]:
        """All three places where a run states what it charged."""
        for charge in (*self._spent(), *self.reserved["plan"], *self.certificate["mechanisms"]):
            if what in (None, charge["what"]):
                yield charge

    def mechanism(self, what: str) -> Row:
        return next(m for m in self.certificate["mechanisms"] if m["what"] == what)

    def write(self) -> None:
        """The three files as they are now; no hash is computed anew."""
        self._put()
        rows = [*self.others, *self.own, *self.behind]
        self._dump("ledger.json", {"format": FORMAT, "rows": rows} | self.extract)
        self._dump("certificate.json", self.certificate)
        file = self.folder / "config.toml"
        if file.is_file():
            file.write_text(tomli_w.dumps(self.config))

    def rechain(self) -> None:
        """Every hash, number and epsilon computed anew; only the owner's key is not there."""
        with suppress(LookupError):  # where there are no rows left
            self._write_configuration()
            with suppress(ArithmeticError, LookupError, TypeError, ValueError, RuntimeError):
                self._restate()
            self._vouch()
        self._put()
        if self.own and "certificate" in self.settled:
            self.settled["certificate"] = certificate_sha256(self.certificate)
        head, rows = GENESIS, [*self.others, *self.own, *self.behind]
        for number, row in enumerate(self.own):
            row["body"]["number"] = number
        for number, row in enumerate(rows, start=1):
            row["row"] = number
            text = json.dumps(row.get("body"), sort_keys=True)
            own = row["digest"] if "digest" in row else digest(row["run"], row["key"], text)
            head = link(head, own)
        self.certificate["ledger"] = {"rows": len(rows), "head": head}
        self._dump("ledger.json", {"format": FORMAT, "rows": rows} | self.extract)
        self._dump("certificate.json", self.certificate)

    def _write_configuration(self) -> None:
        file = self.folder / "config.toml"
        if not file.is_file():
            return
        file.write_text(tomli_w.dumps(self.config))
        new = hashlib.sha256(file.read_bytes()).hexdigest()
        self.certificate["configuration_sha256"] = self.reserved["config"] = new

    def _vouch(self) -> None:
        files = self.settled["files"]
        for name in files:
            if (self.folder / name).is_file() and files[name].islower():
                content = (self.folder / name).read_bytes()
                files[name] = hashlib.sha256(content).hexdigest()
                if name.endswith(".safetensors"):
                    self.certificate[f"{name.removesuffix('.safetensors')}_sha256"] = files[name]

    def _put(self) -> None:
        for where, values in self.kept:
            table = self.certificate[where] if where else self.certificate
            for name, value in values.items():
                if value is ...:
                    del table[name]
                else:
                    table[name] = value

    def _restate(self) -> None:
        certificate, charges = self.certificate, self._spent()
        certificate["releases"] = sum(charge["count"] for charge in charges)
        delta = certificate["delta"]
        if delta is not None:
            for name in certificate["epsilon"]:
                share = self.share if self.lowered in ("", name) else 1.0
                certificate["epsilon"][name] = share * _epsilon(name, charges, delta)
            share = 1.0 if self.lowered else self.share
            certificate["epsilon_replace"] = share * certified(
                curve(charges, replaced=True), delta, largest=largest_order(charges)
            )
        noise = certificate["noise"]["kind"]
        kinds = [mechanism["event"] for mechanism in certificate["mechanisms"]]
        certificate["noise"]["source"] = source(noise, kinds)
        sizing = certificate["budget"].get("accountant")
        certificate["statement"] = statement(
            private=noise in PRIVATE_KINDS,
            epsilon=certificate["epsilon"].get(sizing),
            delta=delta,
            records=certificate["data"]["n_records"],
            noise=noise,
            events=kinds,
        )

    def _spent(self) -> list[Row]:
        return [row["body"]["charge"] for row in self.own if row["body"]["kind"] == "spend"]

    def _dump(self, name: str, body: Row) -> None:
        file = self.folder / name
        if not file.exists() or file.is_file():
            file.write_text(json.dumps(body))


Change = Callable[[Forger], object]


def everywhere(what: str | None = None, /, **values: Any) -> Change:
    """In all three places where a run states its charges; a callable changes what is there."""

    def change(forger: Forger) -> None:
        for charge in forger.charges(what):
            for name, value in values.items():
                charge[name] = value(charge[name]) if callable(value) else value

    return change


def bounded(what: str, **parameters: int) -> Change:
    """A smaller bound at the true noise, which then seems to cost next to nothing."""

    def change(forger: Forger) -> None:
        squared, replaced = sensitivities(what, parameters)
        for charge in forger.charges(what):
            charge |= {"squared_sensitivity": squared, "squared_sensitivity_replace": replaced}
        if any(m["what"] == what for m in forger.certificate["mechanisms"]):
            forger.mechanism(what)["parameters"] = parameters

    return change


def put(where: str, **values: Any) -> Change:
    """In the certificate, or in a table of it; what is to be ... is taken out. It stays so."""

    def change(forger: Forger) -> None:
        forger.kept.append((where, values))

    return change


def lower(share: float, accountant: str = "") -> Change:
    """Every epsilon or one, and the sentence that goes with it."""

    def change(forger: Forger) -> None:
        forger.share, forger.lowered = share, accountant

    return change


def setting(**values: Any) -> Change:
    """In config.toml, and where the certificate and the reservation repeat it."""

    def change(forger: Forger) -> None:
        for name, value in values.items():
            forger.settings[name] = value
            for budget in (forger.certificate["budget"], forger.reserved["budget"]):
                if name in budget:
                    budget[name] = value
            if name in ("steps", "label_prior"):
                forger.certificate["facts"][name] = value
            if name == "n_teachers":
                forger.certificate["facts"]["teachers"] = value
            if name == "delta":
                forger.certificate["delta"] = value

    return change


def about(**values: Any) -> Change:
    """The description of the data, in all three files."""

    def change(forger: Forger) -> None:
        for name, value in values.items():
            forger.certificate["data"][name] = forger.reserved["data"][name] = value
            forger.config["data"]["class_names" if name == "classes" else name] = value

    return change


def method(name: str) -> Change:
    def change(forger: Forger) -> None:
        forger.certificate["method"] = forger.reserved["method"] = forger.config["method"] = name

    return change


def unspent(*kinds: str, leaving: int = 0, reserved: bool = True) -> Change:
    """All charges of these kinds left out, up to a few; and no longer reserved, perhaps."""

    def change(forger: Forger) -> None:
        for what in kinds:
            own = [r for r in forger.own if r["body"].get("charge", {}).get("what") == what]
            dropped = own[leaving:]
            forger.own = [row for row in forger.own if row not in dropped]
            kept = sum(row["body"]["charge"]["count"] for row in own[:leaving])
            forger.mechanism(what)["count"] = kept
            if not reserved:
                plan = forger.reserved["plan"]
                forger.reserved["plan"] = [charge for charge in plan if charge["what"] != what]
        found = forger.certificate["mechanisms"]
        forger.certificate["mechanisms"] = [m for m in found if m["count"]]

    return change


def both(*changes: Change) -> Change:
    def change(forger: Forger) -> None:
        for each in changes:
            each(forger)

    return change


def appended(name: str) -> Change:
    """Another picture, report, generator."""
    return lambda forger: (forger.folder / name).open("ab").write(b" ")


def again(place: int) -> Change:
    """A row of the run once more, where it is."""
    return lambda forger: forger.own.insert(place, copy.deepcopy(forger.own[place]))
