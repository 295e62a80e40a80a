"""MNIST and Fashion-MNIST as their publishers' IDX files: where they may lie, and who has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from datalens.data.download import OutOfReachError, download
from datalens.data.idx import read_idx_images, read_idx_labels
from datalens.data.records import (
    DECLARED,
    PUBLISHED,
    Keep,
    Positions,
    PublicFacts,
    Records,
    Split,
)
from datalens.data.whereabouts import cache_folder, data_folders, first_file
from datalens.errors import DataLensError

_FILES: dict[Split, tuple[str, str]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
N_RECORDS: dict[Split, int] = {"train": 60_000, "test": 10_000}


@dataclass(frozen=True, kw_only=True)
class OfficialSet:
    """A data set in the four files of MNIST."""

    name: str
    class_names: tuple[str, ...]
    mirrors: tuple[str, ...]
    sha256: Mapping[str, str]
    """Of each file's unpacked content."""

    def find(self, split: Split, data_dir: Path | None) -> tuple[Path, Path] | None:
        """Where the images and labels of a split lie, if they are on this machine."""
        for folder in self._folders(data_dir):
            images, labels = (_plain_or_packed(folder / file) for file in _FILES[split])
            if images and labels:
                return images, labels
        return None

    def files(self, split: Split, data_dir: Path | None) -> tuple[Path, Path]:
        """The images and labels of a split, downloaded if need be."""
        return self.find(split, data_dir) or self._fetch(split, data_dir)

    def load(
        self,
        split: Split,
        data_dir: Path | None,
        image_size: int | None = None,
        keep: Keep | None = None,
    ) -> Records:
        images, labels = self.files(split, data_dir)
        ahead: PublicFacts | None = None
        positions: Positions | None = None

        def rows(shape: tuple[int, ...]) -> Positions | None:
            nonlocal ahead, positions
            # Files that people put there need not be the published ones; then nor are their facts.
            ahead = PublicFacts.of_array(
                shape,
                class_names=self.class_names,
                name=self.name,
                image_size=image_size,
                why=PUBLISHED if shape[0] == N_RECORDS[split] else DECLARED,
            )
            positions = keep(ahead) if keep else None
            return positions

        def as_many(shape: tuple[int, ...]) -> None:
            if ahead is not None and shape != (ahead.n_records,):
                raise DataLensError(
                    f"{labels} must hold {ahead.n_records:,} labels, one per image, but holds "
                    f"{shape[0]:,}: fetch both files again."
                )

        return Records.from_arrays(
            read_idx_images(images, rows),
            read_idx_labels(labels, as_many),
            class_names=self.class_names,
            image_size=image_size,
            part_of=ahead,
            positions=positions,
        )

    def _folders(self, data_dir: Path | None) -> list[Path]:
        return [folder / self.name for folder in data_folders(data_dir)]

    def _fetch(self, split: Split, data_dir: Path | None) -> tuple[Path, Path]:
        images, labels = (cache_folder() / self.name / f"{file}.gz" for file in _FILES[split])
        try:
            for target in (images, labels):
                urls = [f"{mirror}/{target.name}" for mirror in self.mirrors]
                download(urls, target, sha256=self.sha256[target.stem])
        except OutOfReachError as error:
            raise DataLensError(
                f"{self.name} is not on this machine and no mirror is in reach: put "
                f"{' and '.join(_FILES[split])} (plain or .gz) into "
                f"{self._folders(data_dir)[0]}, or into {self.name}/ of a folder that "
                "--data-dir names."
            ) from error
        return images, labels


def _plain_or_packed(path: Path) -> Path | None:
    return first_file(path, path.with_name(f"{path.name}.gz"))


MNIST = OfficialSet(
    name="mnist",
    class_names=tuple("0123456789"),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
    ),
    sha256={
        "train-images-idx3-ubyte": (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        "train-labels-idx1-ubyte": (
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        "t10k-images-idx3-ubyte": (
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        "t10k-labels-idx1-ubyte": (
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    },
)

FASHION_MNIST = OfficialSet(
    name="fashion-mnist",
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    mirrors=(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    ),
    sha256={
        "train-images-idx3-ubyte": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
)
