"""Records take what people have, and refuse the rest in one sentence."""

import numpy as np
import pytest

from datalens.data import PublicFacts, Records
from datalens.errors import DataLensError

GREY = np.arange(4 * 8 * 10, dtype=np.uint16).reshape(4, 8, 10).astype(np.uint8)
COLOUR = np.stack([GREY, GREY + 1, GREY + 2], axis=1)
LABELS = np.array([0, 1, 2, 1])


def records(images: object = GREY, labels: object = LABELS, **kwargs: object) -> Records:
    return Records.from_arrays(images, labels, **{"n_classes": 3, **kwargs})  # type: ignore[arg-type]


def test_grey_images_get_their_channel() -> None:
    made = records()
    assert np.array_equal(made.images, GREY[:, None])
    assert made.labels.dtype == np.int64
    assert made.public.shape == (1, 8, 10)
    assert len(made) == made.public.n_records == 4
    assert made.public.n_classes == 3
    assert made.public.class_names == ("0", "1", "2")
    assert "declared" in made.public.why


def test_channels_may_come_first_or_last() -> None:
    first, last = records(COLOUR), records(COLOUR.transpose(0, 2, 3, 1))
    assert np.array_equal(first.images, COLOUR)
    assert np.array_equal(last.images, COLOUR)
    assert last.images.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_survive_the_round_trip(dtype: type) -> None:
    assert np.array_equal(records((GREY / 255).astype(dtype)).images, records().images)


def test_names_declare_classes() -> None:
    assert records(n_classes=None, class_names=("a", "b", "c")).public.n_classes == 3


def test_a_declared_class_need_not_occur() -> None:
    assert records(n_classes=10).public.n_classes == 10


def test_repr_shows_nothing_private() -> None:
    text = repr(records())
    assert "n_records=4" in text
    assert "array" not in text


def test_resized_is_square_and_keeps_the_rest() -> None:
    made = records(np.full((4, 20, 12), 77, dtype=np.uint8), class_names=("a", "b", "c"))
    small = made.resized(8)
    assert small.public.shape == (1, 8, 8)
    assert np.unique(small.images).tolist() == [77]
    assert small.public.class_names == ("a", "b", "c")
    assert np.array_equal(small.labels, made.labels)


def test_resizing_keeps_channels_apart() -> None:
    flat = np.zeros((2, 3, 100, 100), dtype=np.uint8)
    flat[1, 0], flat[1, 1], flat[1, 2] = 10, 20, 30
    made = records(flat, [0, 1], image_size=16)
    assert not made.images[0].any()
    assert made.images[1, :, 3, 3].tolist() == [10, 20, 30]


def spoilt(value: float) -> np.ndarray:
    images = np.zeros((4, 8, 8))
    images[2, 3, 4] = value
    return images


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.1, 1.5, 255.0, 1e300])
def test_stray_floats_are_named(value: float) -> None:
    with pytest.raises(DataLensError, match=r"image 2 holds"):
        records(spoilt(value))


@pytest.mark.parametrize(
    "images, says",
    [
        (np.zeros((4, 8, 8), dtype=np.int64), "astype"),
        (np.zeros((4, 8, 8), dtype=bool), "bool"),
        (np.zeros((4, 8, 8), dtype=complex), "complex"),
        (np.zeros((4, 64), dtype=np.uint8), "shape"),
        (np.zeros((4, 8, 8, 4), dtype=np.uint8), r"\(4, 8, 8, 4\)"),
        (np.zeros((4, 3, 8, 3), dtype=np.uint8), "shape"),
        (np.zeros((), dtype=np.uint8), "shape"),
        (np.float64("nan"), "nan"),
        (np.zeros((0, 8, 8), dtype=np.uint8), "no records"),
        (np.zeros((4, 7, 8), dtype=np.uint8), "--image-size"),
        (np.zeros((4, 8, 65), dtype=np.uint8), "--image-size"),
        ([[1], [2, 3]], "images must be"),
        (None, "images must be"),
    ],
)
def test_bad_images_are_refused(images: object, says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        records(images)


@pytest.mark.parametrize(
    "labels, says",
    [
        ([0, 1, 2, 3], r"0 to 2 for 3 classes, but the label at position 3 is 3"),
        ([0, -1, 2, 2], "position 1 is -1"),
        (np.array([0, 1, 2, 2**63], dtype=np.uint64), "position 3"),
        ([0.0, 1.0, 2.0, 1.0], "integers"),
        ([True, False, True, False], "integers"),
        (["a", "b", "c", "a"], "integers"),
        ([0, 1, 2], "one per image"),
        ([[0], [1], [2], [1]], "one integer per image"),
        ([[0], [1, 2]], "labels must be"),
    ],
)
def test_bad_labels_are_refused(labels: object, says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        records(labels=labels)


@pytest.mark.parametrize(
    "declared, says",
    [
        ({"n_classes": None}, "must be declared"),
        ({"n_classes": 1}, "2 to 1000"),
        ({"n_classes": 10**12}, "2 to 1000"),
        ({"n_classes": 2.5}, "whole number"),
        ({"n_classes": "ten"}, "whole number"),
        ({"n_classes": True}, "whole number"),
        ({"class_names": ("a", "b")}, "agree"),
        ({"n_classes": None, "class_names": ("a",)}, "got 1"),
        ({"n_classes": None, "class_names": ("a", "b", "a")}, "'a' is there twice"),
        ({"n_classes": None, "class_names": ("a", "b", " ")}, "not empty"),
        ({"n_classes": None, "class_names": ("a", "b", "\udce9")}, "printable"),
    ],
)
def test_bad_declarations_are_refused(declared: dict[str, object], says: str) -> None:
    with pytest.raises(DataLensError, match=says):
        records(**declared)


@pytest.mark.parametrize("size", [0, 7, 65, 10**9, 8.5, True, "8"])
def test_bad_image_size_is_refused(size: int) -> None:
    with pytest.raises(DataLensError, match="--image-size"):
        records().resized(size)
    with pytest.raises(DataLensError, match="--image-size"):
        records(image_size=size)


def test_images_without_pixels_cannot_be_resized() -> None:
    with pytest.raises(DataLensError, match="pixels"):
        records(np.zeros((4, 0, 8), dtype=np.uint8), image_size=8)


@pytest.mark.parametrize(
    "images, labels, says",
    [
        (np.zeros((2, 1, 8, 8), dtype=np.float32), np.zeros(2, dtype=np.int64), "from_arrays"),
        (np.zeros((2, 8, 8, 1), dtype=np.uint8), np.zeros(2, dtype=np.int64), "from_arrays"),
        (np.zeros((2, 1, 8, 8), dtype=np.uint8), np.zeros(2, dtype=np.int32), "int64"),
    ],
)
def test_the_constructor_converts_nothing(
    images: np.ndarray, labels: np.ndarray, says: str
) -> None:
    public = PublicFacts(name="x", n_records=2, shape=(1, 8, 8), class_names=("a", "b"))
    with pytest.raises(DataLensError, match=says):
        Records(images=images, labels=labels, public=public)


def test_public_facts_refuse_other_channels() -> None:
    with pytest.raises(DataLensError, match="4 channels"):
        PublicFacts(name="x", n_records=2, shape=(4, 8, 8), class_names=("a", "b"))


def test_seals_of_parts_add_up_to_that_of_the_whole() -> None:
    chance = np.random.default_rng(3)
    images = chance.integers(0, 256, (30, 1, 8, 8), dtype=np.uint8)
    whole = Records.from_arrays(images, np.arange(30) % 3, n_classes=3)
    even, odd = (whole.only(np.arange(first, 30, 2)) for first in (0, 1))
    key = b"k" * 32
    assert np.array_equal(even.seal(key) + odd.seal(key), whole.seal(key))
    assert not np.array_equal(whole.seal(key), whole.seal(b"other"))
    assert not np.array_equal(even.seal(key), odd.seal(key))
