"""Changing one record changes one teacher, bit for bit; what shares anything fails that check."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from datalens.ensemble import DISCRIMINATORS
from datalens.ensemble.adam import Adam
from datalens.ensemble.teachers import Teachers
from datalens.ensemble.workers import Workers

from .ensembles import CLASSES, ensemble, everything, in_double, shards, trained

VICTIM, RECORD = 3, 2


def pixel(images: Tensor, labels: Tensor) -> None:
    images[VICTIM, RECORD, 0, 5, 5] ^= 128


def blank(images: Tensor, labels: Tensor) -> None:
    images[VICTIM, RECORD] = 0


def label(images: Tensor, labels: Tensor) -> None:
    labels[VICTIM, RECORD] = (labels[VICTIM, RECORD] + 1) % CLASSES


def differing(a: dict[str, Tensor], b: dict[str, Tensor]) -> set[int]:
    """Teachers of which any bit differs."""
    return {
        t
        for name in a
        for t in range(len(a[name]))
        if not torch.equal(
            a[name][t].view(-1).view(torch.uint8), b[name][t].view(-1).view(torch.uint8)
        )
    }


Change = Callable[[Tensor, Tensor], None]


def same(teachers: Teachers) -> Teachers:
    return teachers


def touched(
    name: str,
    change: Change,
    kind: Callable[[Teachers], Teachers] = same,
    own_labels: bool = False,
    **settings: Any,
) -> set[int]:
    images, labels = shards()
    first = kind(ensemble(name, images.clone(), labels.clone(), **settings))
    before = everything(trained(first, own_labels=own_labels))
    change(images, labels)
    second = kind(ensemble(name, images, labels, **settings))
    return differing(before, everything(trained(second, own_labels=own_labels)))


@pytest.mark.parametrize("change", [pixel, blank, label])
@pytest.mark.parametrize("name", DISCRIMINATORS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"block_size": 6},
        {"mismatch": True, "real_batch": 4},
        {"mismatch": False, "moments": torch.bfloat16},
        {"kind": in_double},
        {"precision": torch.bfloat16},
        {"own_labels": True},
        {"own_labels": True, "starts": 2, "real_batch": 4, "kind": in_double},
    ],
    ids=[
        "plain",
        "one block",
        "mismatch",
        "bfloat16 moments",
        "double",
        "bfloat16 products",
        "own labels",
        "own labels, common starts, double",
    ],
)
def test_one_record_touches_one_teacher(name: str, change: Change, settings: dict) -> None:
    """By compiled loops, where there are some, and (in double precision) by PyTorch."""
    assert touched(name, change, **settings) == {VICTIM}


def test_untouched_shards_touch_nobody() -> None:
    assert touched("reference", lambda images, labels: None) == set()


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_nan_stays_in_its_teacher(name: str) -> None:
    ill = ensemble(name)
    for parameter in ill.parameters.values():
        parameter[VICTIM] = torch.nan
    trained(ill)
    assert everything(ill)["gradients"][VICTIM].isnan().all()
    assert differing(everything(ill), everything(trained(ensemble(name)))) == {VICTIM}


# Negative controls: each shares something, and must be caught.


def test_shared_batch_statistics_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def over_the_block(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        axes = (0, 1, 3, 4)
        normal = (x - x.mean(axes, keepdim=True)) / (x.var(axes, keepdim=True) + 1e-5).sqrt()
        wide = (slice(None), None, slice(None), None, None)
        return normal * scale[wide] + shift[wide]

    monkeypatch.setattr("datalens.ensemble.reference.batch_norm", over_the_block)
    assert touched("reference", pixel, in_double) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_shared_moments_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the public code, where 80 teachers take turns with one set of moments."""
    own_step = Adam.step

    def in_one_slot(self: Adam, rows: slice, gradient: Tensor) -> None:
        own_step(self, rows, gradient)
        for moment in (self.first, self.second):
            moment[rows] = moment[rows].mean(0, keepdim=True)

    monkeypatch.setattr(Adam, "step", in_one_slot)
    assert touched(name, pixel, in_double) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_memory_that_remembers_the_last_teacher_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled loops use the same memory for one teacher after the other."""
    home = f"datalens.ensemble.{name}_cpu"
    own_learn = importlib.import_module(home).learn

    def forgetful(net: Any, memory: Any, *rest: Any) -> None:
        own_learn(net, memory, *rest)
        memory.gradient[:] *= 0.5  # what is not written anew next time stays

    def remembering(net: Any, memory: Any, *rest: Any) -> None:
        p = rest[-5]
        last = memory.gradient.copy()
        own_learn(net, memory, *rest)
        p -= 1e-6 * last

    monkeypatch.setattr(f"{home}.learn", forgetful)
    assert touched(name, pixel) == {VICTIM}
    monkeypatch.setattr(f"{home}.learn", remembering)
    monkeypatch.setattr(Workers, "share", one_after_the_other)
    assert touched(name, pixel) > {VICTIM}


def one_after_the_other(self: Workers, items: Any, work: Any) -> list[Any]:
    return [work(iter(items))]


def test_a_shared_random_stream_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong labels drawn until they are wrong: how many draws it takes depends on the record."""
    common = torch.Generator()

    def drawn_until_wrong(
        self: Teachers, labels: Tensor, block: slice, step: int, update: int
    ) -> Tensor:
        if (block.start, step, update) == (0, 0, 0):
            common.manual_seed(1)
        wrong = labels.clone()
        for t, r in [(t, r) for t in range(len(labels)) for r in range(labels.shape[1])]:
            while wrong[t, r] == labels[t, r]:
                wrong[t, r] = torch.randint(0, CLASSES, (), generator=common)
        return wrong

    monkeypatch.setattr(Teachers, "_wrong", drawn_until_wrong)
    monkeypatch.setattr(Workers, "share", one_after_the_other)
    assert touched("compact", label) > {VICTIM}


def test_a_loss_scaled_over_the_block_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def centred(x: Tensor) -> Tensor:
        return 1 / (1 + (-x).exp()) * (1 + x.mean())

    monkeypatch.setattr(torch, "sigmoid", centred)
    assert touched("compact", pixel, in_double) == {0, 1, 2, 3}
