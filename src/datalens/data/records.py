"""The private records, and beside them what is public about them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from datalens.data.arrays import as_images, as_labels, shape_of_images
from datalens.data.limits import (
    CHANNELS,
    MAX_CLASSES,
    MAX_NAME,
    MAX_PIXELS,
    MAX_RECORDS,
    MAX_SIDE,
    MIN_SIDE,
)
from datalens.data.resizing import check_image_size, resize
from datalens.errors import DataLensError, printable

Split = Literal["train", "test"]

PUBLISHED = "published with the data set"
SHOWN_NAMES = 10
UNNAMED = "records"
"""What arrays are called that nobody has named."""
NO_NAMES = (
    *("train", "training", "test", "data", "dataset", "datasets"),
    *("images", "pictures", "photos", UNNAMED),
)
"""Names of files and folders that say nothing of the data in them."""
DECLARED = "declared public by the user, who passes the data together with these facts"


class NoTestSplit(DataLensError):
    """The source has training data only."""


class NoClasses(DataLensError):
    """The source does not name its classes, and nobody has said how many there are."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What anyone may know about a data set without costing its records any privacy.

    Everything else is private: pixels, labels, class sizes, which classes occur at all.
    """

    name: str
    n_records: int
    """Public because a neighbouring data set has one record blanked in place, not removed."""
    shape: tuple[int, int, int]
    """Channels, height and width of every image."""
    class_names: tuple[str, ...]
    why: str = DECLARED
    """On what ground these facts are public."""

    def __post_init__(self) -> None:
        channels, height, width = self.shape
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > MAX_NAME:
            raise DataLensError(
                f"The name of a data set is published: it must be printable, and have 1 to"
                f" {MAX_NAME} letters, got {self.name!r:.50}; rename the file or folder (name=)."
            )
        if self.n_records < 1:
            raise DataLensError(f"{self.name} holds no records: at least one is needed.")
        if self.n_records > MAX_RECORDS:
            raise DataLensError(
                f"{self.name} holds {self.n_records:,} records: at most {MAX_RECORDS:,} are read."
            )
        if channels not in CHANNELS:
            raise DataLensError(
                f"{self.name} has images of {channels} channels: "
                "convert them to 1 (grey) or 3 (RGB)."
            )
        if not all(MIN_SIDE <= side <= MAX_SIDE for side in (height, width)):
            raise DataLensError(
                f"{self.name} has images of {height}x{width} pixels, but {MIN_SIDE}x{MIN_SIDE} to "
                f"{MAX_SIDE}x{MAX_SIDE} are supported: resize them with --image-size (image_size=)."
            )
        _check_class_names(self.class_names)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    def in_words(self) -> str:
        """One line for who is about to spend a budget on such records."""
        names = [*self.class_names[:SHOWN_NAMES], *["..."][: self.n_classes > SHOWN_NAMES]]
        shape = "x".join(map(str, self.shape))
        return printable(
            f"{self.n_records:,} records of {shape}, {self.n_classes} classes ({', '.join(names)})"
        )

    @classmethod
    def of_array(
        cls,
        shape: tuple[int, ...],
        *,
        n_classes: int | None = None,
        class_names: tuple[str, ...] | None,
        name: str,
        image_size: int | None,
        why: str,
    ) -> PublicFacts:
        """The facts of images that lie in an array of this shape, before it is read."""
        channels, height, width = shape_of_images(shape)
        if height * width > MAX_PIXELS:
            raise DataLensError(f"images of {height}x{width} pixels are too large: shrink them.")
        if image_size is not None:
            check_image_size(image_size)
            height = width = image_size
        return cls(
            name=name,
            n_records=shape[0],
            shape=(channels, height, width),
            class_names=declared_classes(n_classes, class_names),
            why=why,
        )


Positions = npt.NDArray[np.int64]
Keep = Callable[[PublicFacts], Positions]
"""From a data set's public facts, the ascending positions of the records to load."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Labelled images that nobody may see.

    Their `repr` shows the public facts only, so that a record cannot slip into a log.
    """

    images: npt.NDArray[np.uint8] = field(repr=False)
    """(n, channels, height, width)."""
    labels: npt.NDArray[np.int64] = field(repr=False)
    """(n,), each in [0, n_classes)."""
    public: PublicFacts
    positions: Positions | None = field(default=None, repr=False)
    """Which of the data set's records these are, ascending, where they are not all."""

    def __post_init__(self) -> None:
        name, public = self.public.name, self.public
        held = public.n_records if self.positions is None else len(self.positions)
        expected = (held, *public.shape)
        if self.images.dtype != np.uint8 or self.images.shape != expected:
            raise DataLensError(
                f"images of {name} must be uint8 of shape {expected}, got {self.images.dtype} "
                f"of shape {self.images.shape}: Records.from_arrays converts other layouts."
            )
        if self.labels.dtype != np.int64 or self.labels.shape != expected[:1]:
            raise DataLensError(
                f"labels of {name} must be int64 of shape {expected[:1]}, one per image, "
                f"got {self.labels.dtype} of shape {self.labels.shape}."
            )
        stray = np.flatnonzero((self.labels < 0) | (self.labels >= public.n_classes))
        if stray.size:
            at = stray[0] if self.positions is None else self.positions[stray[0]]
            raise DataLensError(
                f"labels of {name} must be 0 to {public.n_classes - 1} for {public.n_classes} "
                f"classes, but the label at position {at} is {self.labels[stray[0]]}."
            )

    def __len__(self) -> int:
        return self.public.n_records

    def rows(self, positions: Positions) -> Positions:
        """Where the records at these positions of the data set lie in the arrays."""
        if self.positions is None:
            return positions
        found: Positions = np.searchsorted(self.positions, positions)
        return found

    def only(self, positions: Positions) -> Records:
        """Those at these positions, as part of the same data set."""
        return Records(
            images=self.images[self.rows(positions)],
            labels=self.labels[self.rows(positions)],
            public=self.public,
            positions=positions,
        )

    def fingerprint(self) -> bytes:
        """Tells whether two collections are the same. A private fact, never to be published."""
        digest = hashlib.sha256(repr((self.images.shape, self.positions is None)).encode())
        for array in (self.images, self.labels):
            digest.update(np.ascontiguousarray(array).data.cast("B"))
        return digest.digest()

    def seal(self, key: bytes) -> npt.NDArray[np.int64]:
        """Tells, to who has the key, whether the same records lie at the same positions.

        Four words. Those of disjoint parts add up, with overflow, to those of the whole. Private.
        """
        total = np.zeros(4, dtype=np.int64)
        held = range(len(self.labels)) if self.positions is None else self.positions
        for position, image, label in zip(held, self.images, self.labels, strict=True):
            digest = hashlib.blake2b(b"%d %d " % (position, label), key=key, digest_size=32)
            digest.update(np.ascontiguousarray(image).data.cast("B"))
            total += np.frombuffer(digest.digest(), dtype=np.int64)
        return total

    @classmethod
    def from_arrays(
        cls,
        images: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        n_classes: int | None = None,
        class_names: tuple[str, ...] | None = None,
        name: str = UNNAMED,
        image_size: int | None = None,
        why: str = DECLARED,
        part_of: PublicFacts | None = None,
        positions: Positions | None = None,
    ) -> Records:
        """Records from arrays as people have them: see `as_images` for what is accepted.

        The classes must be declared. `labels.max() + 1` is never used in their place: it
        would let one record decide a fact that is then published. Where `images` are only those
        at `positions` of a data set, `labels` are still all, and `part_of` is what is public.
        """
        names = declared_classes(n_classes, class_names)
        pixels = as_images(images, positions)
        if image_size is not None:
            pixels = resize(pixels, image_size)
        n_records, channels, height, width = pixels.shape
        public = part_of or PublicFacts(
            name=name,
            n_records=n_records,
            shape=(channels, height, width),
            class_names=names,
            why=why,
        )
        numbers = as_labels(labels)
        if positions is not None:
            if len(numbers) != public.n_records:
                raise DataLensError(
                    f"labels of {public.name} must be {public.n_records}, one per image, "
                    f"got {len(numbers)}."
                )
            numbers = numbers[positions]
        return cls(images=pixels, labels=numbers, public=public, positions=positions)

    def resized(self, size: int) -> Records:
        """The same records with square images of `size` pixels."""
        return Records.from_arrays(
            self.images,
            self.labels,
            class_names=self.public.class_names,
            name=self.public.name,
            image_size=size,
            why=self.public.why,
        )


def name_of(path: Path) -> str:
    """What data in a file or folder are called, in what is published and as a ledger.

    The path's last part, or the first above it that names a data set. What is called `test` are
    other people's records: those of `faces/test` are `faces-test`.
    """
    whole = path.resolve() if path.is_dir() else path.parent.resolve() / path.stem
    parts = [part for part in reversed(whole.parts) if part != whole.anchor]
    for above, name in enumerate(parts):
        if name.lower() not in NO_NAMES:
            tested = "test" in (part.lower() for part in parts[:above])
            return f"{name}-test" if tested else name
    return whole.name


def declared_classes(n_classes: int | None, class_names: tuple[str, ...] | None) -> tuple[str, ...]:
    """The class names that were declared, by name or by number."""
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer | None):
        raise DataLensError(f"n_classes must be a whole number, got {n_classes!r}.")
    if class_names is not None:
        if n_classes is not None and n_classes != len(class_names):
            raise DataLensError(
                f"{n_classes} classes were declared, but the data names {len(class_names)}: "
                "leave out --classes (n_classes=) or make them agree."
            )
        return tuple(str(name) for name in class_names)
    if n_classes is None:
        raise NoClasses(
            "the number of classes must be declared with --classes (n_classes= or class_names=), "
            "because counting them in the labels would publish a private fact."
        )
    # Checked before the names are made: a typing error must not fill the memory.
    if not 2 <= n_classes <= MAX_CLASSES:
        raise DataLensError(f"n_classes must be 2 to {MAX_CLASSES}, got {n_classes}.")
    return tuple(str(label) for label in range(int(n_classes)))


def _check_class_names(names: tuple[str, ...]) -> None:
    if not 2 <= len(names) <= MAX_CLASSES:
        raise DataLensError(
            f"2 to {MAX_CLASSES} classes must be declared, got {len(names)}"
            f"{f' ({names[0]!r})' if len(names) == 1 else ''}."
        )
    for name in names:
        # Unprintable also means bytes that are not UTF-8, which no report could show.
        if not name.strip() or not name.isprintable():
            raise DataLensError(f"class names must be printable and not empty, got {name!r:.50}.")
        if len(name) > MAX_NAME:
            raise DataLensError(
                f"class names have at most {MAX_NAME} letters: {name[:50]}... has {len(name)}."
            )
        if names.count(name) > 1:
            raise DataLensError(f"class names must differ, but {name!r} is there twice.")
