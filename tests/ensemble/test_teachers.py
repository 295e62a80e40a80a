"""The ensemble does, all at once, what each teacher alone would do."""

from typing import Any

import pytest
import torch
from torch import Tensor

from datalens.ensemble import DISCRIMINATORS, Teachers, make_discriminator, stream
from datalens.errors import DataLensError

from .ensembles import (
    CLASSES,
    N_TEACHERS,
    SHAPE,
    SHARD,
    M,
    by_class,
    ensemble,
    everything,
    gradients,
    in_double,
    shards,
    synthetic,
    trained,
)
from .oracle import OneTeacher

DEAD = {"conv2.bias", "hidden.bias"}
"""Biases that the reference's batch norm takes out again. Their gradient is zero but for rounding,
which a plain module's Adam blows up to a step of full size; no output depends on them."""


def close(a: Tensor, b: Tensor, tolerance: float = 1e-6) -> bool:
    return float((a - b).detach().abs().max()) <= tolerance * float(b.detach().abs().max())


@pytest.mark.parametrize("real_batch, mismatch", [(SHARD, False), (SHARD, True), (3, True)])
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_training_equals_one_teacher_at_a_time(name: str, real_batch: int, mismatch: bool) -> None:
    images, labels = shards()
    found = trained(in_double(ensemble(name, real_batch=real_batch, mismatch=mismatch)))
    answers = gradients(found)
    for t in range(N_TEACHERS):
        truth = OneTeacher(found.discriminator, images[t], labels[t], t)
        for step in range(2):
            for update in range(2):
                draw = {"step": step, "update": update}
                truth.train(*synthetic(step), **draw, real_batch=real_batch, mismatch=mismatch)
        fresh = found.discriminator.initial(stream(b"secret", "initial", t))
        for k, parameter in truth.params.items():
            if not (name == "reference" and k in DEAD):
                assert close(found.parameters[k][t] - fresh[k], parameter - fresh[k]), k
        assert close(answers[t], truth.gradient(*synthetic(9)))


@pytest.mark.parametrize("mismatch", [False, True])
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_a_compiled_update_equals_one_teacher_at_a_time(name: str, mismatch: bool) -> None:
    """In float32, from bytes. After one update the moments are the gradient and its square, scaled.

    A unit may round to the other side of its rectifier's kink: that may happen to one teacher.
    """
    images, labels = shards()
    found = ensemble(name, mismatch=mismatch)
    found.train(*synthetic(0), step=0)
    moments = found.layout.views(found.adam.first)
    errors = []
    for t in range(N_TEACHERS):
        truth = OneTeacher(found.discriminator, images[t], labels[t], t)
        truth.train(*synthetic(0), step=0, update=0, real_batch=SHARD, mismatch=mismatch)
        first = {k: truth.optimiser.state[p]["exp_avg"] for k, p in truth.params.items()}
        largest = max(float(m.abs().max()) for m in first.values())
        errors.append(max(float((moments[k][t] - m).abs().max()) for k, m in first.items()))
        errors[-1] /= largest
    assert sorted(errors)[-2] < 1e-4 and max(errors) < 0.5, errors


def test_training_teaches() -> None:
    """Real images are bright and synthetic ones dark, so after training brighter is more real."""
    bright = torch.full((N_TEACHERS, SHARD, *SHAPE), 230, dtype=torch.uint8)
    one_class = torch.zeros(N_TEACHERS, SHARD, dtype=torch.int64)
    teachers = ensemble("compact", bright, one_class, mismatch=False)
    dark, labels = synthetic()[0] * 0.2, torch.zeros(M, dtype=torch.int64)
    for step in range(40):
        teachers.train(dark, labels, step=step)
    assert all((g.sum(2) > 0).all() for _, g in teachers.gradients(dark, labels))


def test_mismatch_makes_the_label_matter() -> None:
    """Each class is one stripe; shown a blank image, a teacher wants the stripe of *its* class."""
    labels = torch.arange(N_TEACHERS * 8).view(N_TEACHERS, 8) % CLASSES
    images = torch.zeros(N_TEACHERS, 8, *SHAPE, dtype=torch.uint8)
    for c in range(CLASSES):
        images[labels == c, :, 3 * c] = 255
    teachers = ensemble("compact", images, labels, learning_rate=1e-3)
    grey, asked = torch.full((CLASSES, *SHAPE), 0.1), torch.arange(CLASSES)
    for step in range(60):
        teachers.train(grey, asked, step=step)
    wish = torch.cat([g for _, g in teachers.gradients(grey, asked)]).mean(0)
    stripes = wish.view(CLASSES, *SHAPE).sum((1, 3))[:, ::3]
    assert torch.equal(stripes.argmax(1), asked)


@pytest.mark.parametrize("name", DISCRIMINATORS)
@pytest.mark.parametrize("block_size", [1, 2, 5, 100])
def test_blocks_change_nothing_beyond_rounding(name: str, block_size: int) -> None:
    whole = everything(trained(in_double(ensemble(name, block_size=N_TEACHERS))))
    blocks = everything(trained(in_double(ensemble(name, block_size=block_size))))
    for k in whole:
        assert close(blocks[k], whole[k]), k


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_products_in_bfloat16_say_nearly_the_same(name: str) -> None:
    """Before training: a reference teacher soon goes another way (docs/scaling.md)."""
    g = stream(b"bfloat16")
    images, labels = torch.rand(15, 1, 28, 28, generator=g), torch.arange(15) % 10
    shards = torch.randint(0, 256, (4, 2, 1, 28, 28), generator=g, dtype=torch.uint8)

    def said(precision: torch.dtype) -> Tensor:
        teachers = Teachers(
            discriminator=make_discriminator(name, (1, 28, 28), 10, precision=precision),
            images=shards,
            labels=torch.zeros(4, 2, dtype=torch.int64),
            secret=b"secret",
        )
        return torch.cat([part for _, part in teachers.gradients(images, labels)])

    whole, half = said(torch.float32), said(torch.bfloat16)
    assert not torch.equal(whole, half)
    alike = torch.cosine_similarity(whole.flatten(1), half.flatten(1), dim=1)
    assert alike.min() > 0.9, alike


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_threads_change_no_bit(name: str) -> None:
    found = []
    for threads in (1, 3):
        teachers = ensemble(name, block_size=2)
        teachers.workers.count = threads
        found.append(everything(trained(teachers)))
    assert all(torch.equal(found[0][k], found[1][k]) for k in found[0])


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_a_block_is_the_same_wherever_it_runs(name: str) -> None:
    """Teachers 2 to 5 alone, as another machine would hold them, equal those of the whole."""
    images, labels = shards()
    whole = everything(trained(ensemble(name, block_size=2)))
    part = everything(
        trained(ensemble(name, images[2:], labels[2:], block_size=2, first_teacher=2))
    )
    assert all(torch.equal(part[k], whole[k][2:]) for k in whole)


@pytest.mark.parametrize("moments", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_a_saved_state_goes_on_bit_for_bit(name: str, moments: torch.dtype) -> None:
    settings: dict[str, Any] = {"moments": moments, "real_batch": 3}
    first = trained(ensemble(name, **settings))
    saved = {k: t.clone() for k, t in first.state().items()}
    second = ensemble(name, **settings)
    second.load_state(saved)
    a, b = (everything(trained(t, range(2, 4))) for t in (first, second))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert int(saved["steps"][0]) == 4 and int(a["steps"][0]) == 8


def test_gradients_name_their_teachers_and_change_nothing() -> None:
    teachers = trained(ensemble("reference", first_teacher=10))
    before = {k: t.clone() for k, t in teachers.state().items()}
    pieces = list(teachers.gradients(*synthetic()))
    assert [numbers for numbers, _ in pieces] == [range(10, 14), range(14, 16)]
    assert [tuple(g.shape) for _, g in pieces] == [(4, M, 120), (2, M, 120)]
    assert all(torch.equal(before[k], t) for k, t in teachers.state().items())


def test_the_secret_and_the_step_decide_what_is_drawn() -> None:
    def drawn(secret: bytes, step: int, update: int) -> Tensor:
        teachers = ensemble("compact", secret=secret, real_batch=3)
        images, labels = teachers._records(slice(0, 4), step, update)
        wrong = teachers._wrong(labels, slice(0, 4), step, update)
        return torch.cat([images.flatten().long(), wrong.flatten()])

    assert torch.equal(drawn(b"a", 1, 0), drawn(b"a", 1, 0))
    for other in [(b"b", 1, 0), (b"a", 2, 0), (b"a", 1, 1), (b"a", 0, 1)]:
        assert not torch.equal(drawn(b"a", 1, 0), drawn(*other))


def test_wrong_labels_are_wrong_and_records_are_not_repeated() -> None:
    images = torch.arange(SHARD, dtype=torch.uint8).view(1, SHARD, 1, 1, 1)
    images = images.expand(N_TEACHERS, SHARD, *SHAPE)
    teachers = ensemble("compact", images, real_batch=4)
    block, counts = slice(0, N_TEACHERS), torch.zeros(CLASSES)
    for step in range(50):
        seen, right = teachers._records(block, step, 0)
        records = seen[:, 0, 0, 0].long()
        assert all(len(set(row.tolist())) == 4 for row in records)
        assert torch.equal(right, teachers.labels.gather(1, records))
        wrong = teachers._wrong(right, block, step, 0)
        counts += ((wrong - right) % CLASSES).flatten().bincount(minlength=CLASSES)
    assert counts[0] == 0 and counts[1:].min() > 0.9 * counts[1:].mean()


IMAGES, LABELS = shards()


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"images": IMAGES.float()}, "uint8"),
        ({"images": IMAGES[:, :, :, :8]}, "uint8 images"),
        ({"labels": LABELS[:, 1:]}, "labels must be"),
        ({"labels": LABELS + CLASSES}, "0 to 3"),
        ({"labels": LABELS - CLASSES}, "0 to 3"),
        ({"labels": LABELS.float()}, "integers"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "labels must be"),
        ({"real_batch": 0}, "real_batch"),
        ({"real_batch": SHARD + 1}, "real_batch"),
        ({"block_size": 0}, "block_size"),
        ({"moments": torch.float16}, "moments"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"betas": (0.5, 1.0)}, "betas"),
    ],
)
def test_bad_shards_and_settings_are_refused(settings: dict, says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        ensemble("compact", **settings)


def test_batch_norm_needs_company() -> None:
    with pytest.raises(DataLensError, match="shards of at least 2"):
        ensemble("reference", IMAGES[:, :1], LABELS[:, :1])
    with pytest.raises(DataLensError, match="real_batch"):
        ensemble("reference", real_batch=1)
    x, y = synthetic()
    with pytest.raises(DataLensError, match="synthetic batches of at least 2"):
        ensemble("reference").train(x[:1], y[:1], step=0)
    alone = ensemble("compact", IMAGES[:, :1], LABELS[:, :1])
    alone.train(x[:1], y[:1], step=0)


@pytest.mark.parametrize(
    "x, y",
    [
        (torch.rand(M, 1, 12, 11), torch.zeros(M, dtype=torch.int64)),
        (torch.rand(M, *SHAPE), torch.zeros(M + 1, dtype=torch.int64)),
        (torch.rand(M, *SHAPE), torch.full((M,), CLASSES)),
        (torch.rand(M, *SHAPE) + 1, torch.zeros(M, dtype=torch.int64)),
        (torch.full((M, *SHAPE), torch.nan), torch.zeros(M, dtype=torch.int64)),
        (torch.rand(0, *SHAPE), torch.zeros(0, dtype=torch.int64)),
    ],
)
def test_bad_synthetic_batches_are_refused(x: Tensor, y: Tensor) -> None:
    teachers = ensemble("compact")
    with pytest.raises(DataLensError):
        teachers.train(x, y, step=0)
    with pytest.raises(DataLensError):
        teachers.gradients(x, y)


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_a_state_of_another_ensemble_is_refused(name: str) -> None:
    teachers: Teachers = ensemble(name)
    state = teachers.state()
    for other in (
        {k: t[1:] for k, t in state.items()},
        {k: t for k, t in state.items() if k != "steps"},
        state | {"more": torch.zeros(1)},
        ensemble(name, moments=torch.bfloat16).state(),
    ):
        with pytest.raises(DataLensError, match="another ensemble"):
            teachers.load_state(other)


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_teachers_learn_from_images_of_the_classes_of_their_own_records(name: str) -> None:
    """Each as if it had been shown just those, one for each record, the vectors in turn."""
    images, labels = shards()
    whole = ensemble(name, block_size=1)
    others = by_class()
    whole.train(*synthetic(), step=0, by_class=others)
    for teacher in range(N_TEACHERS):
        row = slice(teacher, teacher + 1)
        alone = ensemble(name, images[row], labels[row], first_teacher=teacher)
        own = others[torch.arange(SHARD) % M, labels[teacher]]
        alone.train(own, labels[teacher], step=0)
        torch.testing.assert_close(alone.adam.weights[0], whole.adam.weights[teacher])


def test_starts_are_dealt_in_turn_and_do_not_depend_on_records() -> None:
    weights = ensemble("compact", starts=4).adam.weights
    assert torch.equal(weights[:2], weights[4:6])
    assert len(torch.unique(weights[:4], dim=0)) == 4
    images, labels = shards()
    assert torch.equal(weights, ensemble("compact", images * 0, labels * 0, starts=4).adam.weights)
    part = ensemble("compact", images[:2], labels[:2], starts=4, first_teacher=3).adam.weights
    assert torch.equal(part, weights[3:5])


@pytest.mark.parametrize("shape", [(M, CLASSES + 1, *SHAPE), (M, *SHAPE), (0, CLASSES, *SHAPE)])
def test_images_that_lack_a_class_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataLensError, match="images by class"):
        ensemble("compact").train(*synthetic(), step=0, by_class=torch.zeros(shape))
