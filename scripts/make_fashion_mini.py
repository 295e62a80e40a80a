"""Make the bundled fashion-mini.npz from the four official files of Fashion-MNIST.

    python scripts/make_fashion_mini.py FOLDER

The first 20,000 training and the first 2,000 test images, unchanged, in the NPZ layout that
`datalens` reads.
"""

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np

import datalens.data
from datalens.data.idx import read_idx_images, read_idx_labels
from datalens.data.official import FASHION_MNIST

TARGET = Path(datalens.data.__file__).parent / "bundled" / "fashion-mini.npz"
N_TRAIN, N_TEST = 20_000, 2_000
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a fixed date: the same input gives the same file


def first(folder: Path, stem: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    images, labels = (
        next(file for file in sorted(folder.glob(f"{stem}-{what}-ubyte*")))
        for what in ("images-idx3", "labels-idx1")
    )
    return read_idx_images(images)[:count], read_idx_labels(labels)[:count].astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the IDX files lie, plain or gzipped")
    folder = parser.parse_args().folder

    arrays = {"class_names": np.array(FASHION_MNIST.class_names)}
    arrays["images"], arrays["labels"] = first(folder, "train", N_TRAIN)
    arrays["test_images"], arrays["test_labels"] = first(folder, "t10k", N_TEST)

    # np.savez_compressed would do, were it not for its dates and its lower compression.
    with zipfile.ZipFile(TARGET, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, member.getvalue(), compresslevel=9)
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
