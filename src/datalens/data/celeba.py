"""CelebA as its publisher's files: aligned faces, their attributes, and the official partition.

A set of classes made of attributes leaves out the faces that have none of them, or several. Who
is left out is decided before the guarantee begins: it speaks of the faces that are in, and their
number is among the facts that using the set declares public.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from datalens.data.decoding import Picture, decoded
from datalens.data.documents import read_whole, reading
from datalens.data.limits import MAX_NAME, MAX_PACKED
from datalens.data.records import DECLARED, PUBLISHED, Keep, PublicFacts, Records, Split
from datalens.data.resizing import check_image_size
from datalens.data.whereabouts import data_folders, first_file, first_folder
from datalens.errors import DataLensError

SIDE = 64
"""Pixels, as in the paper. The whole picture is shrunk: the paper speaks of no cropping."""

_PICTURES, _ATTRIBUTES = "img_align_celeba", "list_attr_celeba.txt"
_PARTITION = "list_eval_partition.txt"
_PARTS: dict[Split, bytes] = {"train": b"0", "test": b"2"}
"""The third, 1, is for validation and is left alone."""
_PUBLISHED_FACES: dict[Split, int] = {"train": 162_770, "test": 19_962}
_MOST_TEXT = 32 * 2**20
"""Bytes of a list; the longest of the official ones has 27 million."""

HOW_TO_GET = (
    f"put {_PICTURES}.zip (or {_PICTURES}/), {_ATTRIBUTES} and {_PARTITION} into celeba/ of a "
    "folder that --data-dir names"
)


class Place(NamedTuple):
    """Where the parts of CelebA lie."""

    pictures: Path
    """A folder or a zip."""
    attributes: Path
    partition: Path


class Face(NamedTuple):
    file: str
    label: int


@dataclass(frozen=True, kw_only=True)
class FaceSet:
    """CelebA with a class for each of several attributes, or two classes from one."""

    name: str
    class_names: tuple[str, ...]
    attributes: tuple[str, ...]
    n_records: Mapping[Split, int | None]
    """As published; None where nobody publishes it."""

    def find(self, data_dir: Path | None) -> str | None:
        place = _find(data_dir)
        return str(place.pictures.parent) if place else None

    def place(self, data_dir: Path | None) -> Place:
        place = _find(data_dir)
        if place is None:
            raise DataLensError(f"{self.name} is not on this machine: {HOW_TO_GET}.")
        return place

    def pictures(self, split: Split, data_dir: Path | None) -> list[Path]:
        """The files of the faces, where they are not in a zip."""
        place = self.place(data_dir)
        if place.pictures.is_file():
            return []
        listed = _listed(place.partition, _PARTS[split])
        return [place.pictures / face.file for face in self._faces(place, listed)]

    def load(
        self, split: Split, data_dir: Path | None, image_size: int | None, keep: Keep | None
    ) -> Records:
        """All faces of a split that have a class, or those among them that `keep` names."""
        size = SIDE if image_size is None else image_size
        check_image_size(size)
        place = self.place(data_dir)
        listed = _listed(place.partition, _PARTS[split])
        faces = self._faces(place, listed)
        with reading(place.partition):
            ahead = PublicFacts(
                name=self.name,
                n_records=len(faces),
                shape=(3, size, size),
                class_names=self.class_names,
                why=PUBLISHED if len(listed) == _PUBLISHED_FACES[split] else DECLARED,
            )
        positions = None if keep is None else keep(ahead)
        wanted = np.arange(len(faces)) if positions is None else positions
        with _stored(place.pictures) as stored:
            for face in faces:
                if face.file not in stored:
                    raise DataLensError(
                        f"{place.pictures} lacks {face.file}, which {place.partition} lists."
                    )
            images = decoded([stored[faces[row].file] for row in wanted], ahead.shape, size)
        labels = np.array([face.label for face in faces], dtype=np.int64)[wanted]
        return Records(images=images, labels=labels, public=ahead, positions=positions)

    def _faces(self, place: Place, listed: list[str]) -> list[Face]:
        """Those of the listed faces that have a class, in their order."""
        marks = _marks(place.attributes, self.attributes)
        faces = []
        for file in listed:
            if file not in marks:
                raise DataLensError(f"{place.attributes} lacks {file}: fetch the lists again.")
            label = _label(marks[file])
            if label is not None:
                faces.append(Face(file, label))
        return faces


GENDER = FaceSet(
    name="celeba-gender",
    class_names=("female", "male"),
    attributes=("Male",),
    n_records=_PUBLISHED_FACES,
)
HAIR = FaceSet(
    name="celeba-hair",
    class_names=("black", "blond", "brown"),
    attributes=("Black_Hair", "Blond_Hair", "Brown_Hair"),
    n_records={"train": None, "test": None},
)


def _label(marks: tuple[bool, ...]) -> int | None:
    if len(marks) == 1:
        return int(marks[0])
    return marks.index(True) if sum(marks) == 1 else None


def _find(data_dir: Path | None) -> Place | None:
    for root in data_folders(data_dir):
        for base in (root / "celeba", root / "CelebA"):
            # The publisher's own folders, or all in one.
            pictures = first_folder(base / _PICTURES, base / "Img" / _PICTURES) or first_file(
                base / f"{_PICTURES}.zip", base / "Img" / f"{_PICTURES}.zip"
            )
            attributes = first_file(base / _ATTRIBUTES, base / "Anno" / _ATTRIBUTES)
            partition = first_file(base / _PARTITION, base / "Eval" / _PARTITION)
            if pictures and attributes and partition:
                return Place(pictures, attributes, partition)
    return None


def _listed(partition: Path, part: bytes) -> list[str]:
    """The files of one part, each once: a face that is there twice would reach two teachers."""
    files: set[str] = set()
    listed = []
    with reading(partition):
        for number, line in enumerate(_lines(partition), 1):
            values = line.split()
            if not values:
                continue
            if len(values) != 2 or values[1] not in (b"0", b"1", b"2"):
                raise DataLensError(f"its line {number} is not a file name and 0, 1 or 2.")
            file = _name(values[0], number)
            if file in files:
                raise DataLensError(f"its line {number} lists a file for the second time.")
            files.add(file)
            if values[1] == part:
                listed.append(file)
    return listed


def _marks(attributes: Path, wanted: tuple[str, ...]) -> dict[str, tuple[bool, ...]]:
    """Which of the wanted attributes each file has."""
    marks: dict[str, tuple[bool, ...]] = {}
    with reading(attributes):
        lines = _lines(attributes)
        announced, names = next(lines, b"").split(), next(lines, b"").split()
        columns = [_column(name, names) for name in wanted]
        for number, line in enumerate(lines, 3):
            values = line.split()
            if not values:
                continue
            found = [values[column] for column in columns] if len(values) > len(names) else []
            if len(values) != len(names) + 1 or not set(found) <= {b"1", b"-1"}:
                raise DataLensError(
                    f"its line {number} is not a file name and {len(names)} times 1 or -1."
                )
            file = _name(values[0], number)
            if file in marks:
                raise DataLensError(f"its line {number} lists a file for the second time.")
            marks[file] = tuple(value == b"1" for value in found)
        if announced != [str(len(marks)).encode()]:
            raise DataLensError("its first line is not the number of the faces that follow.")
    return marks


def _name(word: bytes, number: int) -> str:
    if len(word) > MAX_NAME or not word.isascii() or not word.decode().isprintable():
        raise DataLensError(f"its line {number} does not begin with a file name.")
    return word.decode()


def _column(name: str, names: list[bytes]) -> int:
    if name.encode() not in names:
        raise DataLensError(f"it has no attribute {name} in its second line.")
    return 1 + names.index(name.encode())


def _lines(file: Path) -> Iterator[bytes]:
    return iter(io.BytesIO(read_whole(file, at_most=_MOST_TEXT)))


@contextmanager
def _stored(pictures: Path) -> Iterator[Mapping[str, Picture]]:
    """Pictures by file name. Names in a list are only looked up here, never used as paths."""
    if pictures.is_dir():
        with reading(pictures):
            files = {file.name: Picture.of_file(file) for file in pictures.iterdir()}
        yield files
        return
    with reading(pictures), zipfile.ZipFile(pictures) as archive:
        yield {
            Path(entry.filename).name: _zipped(archive, entry, pictures)
            for entry in archive.infolist()
            if not entry.is_dir()
        }


def _zipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, pictures: Path) -> Picture:
    def opened() -> IO[bytes]:
        # The other ways of packing unpack any amount at once.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataLensError(f"{pictures} is packed in a foreign way: fetch it again.")
        with archive.open(entry) as stream:
            content = stream.read(MAX_PACKED + 1)
        return Picture.of_bytes(name, content).open()

    name = f"{entry.filename} of {pictures}"
    return Picture(name=name, open=opened)
