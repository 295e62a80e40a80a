"""Tables of images as Hugging Face stores them; without the optional part, what to install."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from datalens.data import NoTestSplit, fingerprint, load
from datalens.errors import DataLensError

VALUES = np.arange(40) * 6
"""One grey value for each picture."""
LABELS = np.arange(40) % 3
NAMES = ["ant", "bee", "cow"]


def packed(value: int, *, mode: str = "L", size: tuple[int, int] = (8, 8)) -> bytes:
    content = io.BytesIO()
    Image.new("L", size, int(value)).convert(mode).save(content, format="PNG")
    return content.getvalue()


def table(
    images: list[Any] | None = None,
    labels: Any = LABELS,
    *,
    names: Any = NAMES,
    image: str = "image",
    label: str = "label",
) -> Any:
    """As `datasets` writes it: a struct of bytes and path, labels, and a note on both."""
    images = [{"bytes": packed(v), "path": None} for v in VALUES] if images is None else images
    features = {
        image: {"_type": "Image"},
        label: {"names": names, "_type": "ClassLabel"},
    }
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {image: pa.array(images, kind), label: pa.array(labels)}
    note = json.dumps({"info": {"features": features if names else {}}})
    return pa.table(columns).replace_schema_metadata({"huggingface": note})


def save(rows: Any, folder: Path) -> None:
    """What `Dataset.save_to_disk` leaves: Arrow streams, and a list of them."""
    folder.mkdir(parents=True)
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, rows.schema) as writer,
    ):
        writer.write_table(rows, max_chunksize=7)
    state = {
        "_data_files": [{"filename": "data-00000-of-00001.arrow"}],
        "_fingerprint": "0123456789abcdef",
        "_split": "train",
    }
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(table(), tmp_path / "pets.parquet", row_group_size=9)
    return tmp_path / "pets.parquet"


def test_a_parquet_file(file: Path) -> None:
    records = load(str(file))
    assert records.public.class_names == tuple(NAMES)
    assert (records.public.name, records.public.shape) == ("pets", (3, 8, 8))
    assert "declared" in records.public.why
    assert records.images[:, 0, 0, 0].tolist() == VALUES.tolist()
    assert records.labels.tolist() == LABELS.tolist()
    with pytest.raises(NoTestSplit, match="no test data"):
        load(str(file), split="test")


def test_only_the_wanted_rows_are_held(file: Path) -> None:
    wanted = np.array([0, 8, 9, 39])
    part = load(str(file), keep=lambda public: wanted)
    assert part.images[:, 0, 0, 0].tolist() == VALUES[wanted].tolist()
    assert part.labels.tolist() == LABELS[wanted].tolist()
    assert part.public.n_records == 40


@pytest.mark.parametrize("inside", ["", "data", "train"])
def test_a_folder_of_parquet_files(tmp_path: Path, inside: str) -> None:
    root = tmp_path / "pets"
    (root / inside).mkdir(parents=True)
    for number in range(2):
        rows = table().slice(20 * number, 20)
        pq.write_table(rows, root / inside / f"train-0000{number}-of-00002.parquet")
    assert load(str(root)).images[:, 0, 0, 0].tolist() == VALUES.tolist()
    with pytest.raises(NoTestSplit):
        load(str(root), split="test")
    other = root / "test" if inside == "train" else root / inside
    other.mkdir(exist_ok=True)
    pq.write_table(table().slice(0, 3), other / "test-00000-of-00001.parquet")
    pq.write_table(table().slice(0, 5), other / "validation-00000-of-00001.parquet")
    assert len(load(str(root), split="test")) == 3
    assert len(load(str(root))) == 40


@pytest.mark.parametrize(
    "train, test",
    [("pets_train", "pets_test"), ("train_0", "test_0"), ("pets.TRAINING.1", "pets.eval.1")],
)
def test_test_rows_are_no_training_rows(tmp_path: Path, train: str, test: str) -> None:
    pq.write_table(table().slice(0, 30), tmp_path / f"{train}.parquet")
    pq.write_table(table().slice(30, 10), tmp_path / f"{test}.PARQUET")
    pq.write_table(table().slice(0, 5), tmp_path / "pets-dev-0.parquet")
    assert load(str(tmp_path)).images[:, 0, 0, 0].tolist() == VALUES[:30].tolist()
    tested = load(str(tmp_path), split="test")
    assert tested.images[:, 0, 0, 0].tolist() == VALUES[30:].tolist()
    pq.write_table(table(), tmp_path / "train-test.parquet")
    with pytest.raises(DataLensError, match=r"several parts \(train, test\): rename it"):
        load(str(tmp_path))


def test_a_table_that_is_reached_twice_is_not_twice_the_records(file: Path) -> None:
    (file.parent / "again.parquet").hardlink_to(file)
    with pytest.raises(DataLensError, match=r"pets\.parquet is the same file as .*again\.parquet"):
        load(str(file.parent))


def test_a_name_may_be_in_capitals(file: Path) -> None:
    records = load(str(file.rename(file.with_name("PETS.PARQUET"))))
    assert records.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("number", ["sex", "__index_level_0__"])
def test_a_number_that_is_not_called_a_label_is_none(tmp_path: Path, number: str) -> None:
    """The only column of whole numbers need not be the classes, and budgets are spent once."""
    rows = pa.table({"image": [packed(v) for v in VALUES], number: LABELS % 2})
    pq.write_table(rows, tmp_path / "own.parquet")
    with pytest.raises(DataLensError, match=f"called label, but its .* are {number}: rename"):
        load(str(tmp_path / "own.parquet"), n_classes=2)
    pq.write_table(rows.rename_columns(["image", "label"]), tmp_path / "own.parquet")
    assert len(load(str(tmp_path / "own.parquet"), n_classes=2)) == 40


def test_what_save_to_disk_leaves(tmp_path: Path) -> None:
    save(table(), tmp_path / "one")
    one = load(str(tmp_path / "one"))
    assert one.images[:, 0, 0, 0].tolist() == VALUES.tolist()
    for split, rows in (("train", table()), ("test", table().slice(0, 4))):
        save(rows, tmp_path / "both" / split)
    (tmp_path / "both" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert len(load(str(tmp_path / "both"))) == 40
    assert load(str(tmp_path / "both"), split="test").labels.tolist() == [0, 1, 2, 0]


def test_rows_in_another_order_are_refused(tmp_path: Path) -> None:
    save(table(), tmp_path / "one")
    state = json.loads((tmp_path / "one" / "state.json").read_text())
    state["_indices_files"] = [{"filename": "indices.arrow"}]
    (tmp_path / "one" / "state.json").write_text(json.dumps(state))
    with pytest.raises(DataLensError, match="flatten_indices"):
        load(str(tmp_path / "one"))


def test_a_file_outside_is_not_read(tmp_path: Path) -> None:
    save(table(), tmp_path / "one")
    state = {"_data_files": [{"filename": "../../secret.arrow"}]}
    (tmp_path / "one" / "state.json").write_text(json.dumps(state))
    with pytest.raises(DataLensError, match=r"one/secret\.arrow is no Arrow file"):
        load(str(tmp_path / "one"))


def test_colour_sizes_and_plain_bytes(tmp_path: Path) -> None:
    images = [packed(1, mode="RGB"), packed(2), packed(3)]
    rows = pa.table({"img": images, "labels": [0, 1, 1]})
    pq.write_table(rows, tmp_path / "own.parquet")
    with pytest.raises(DataLensError, match="--classes"):
        load(str(tmp_path / "own.parquet"), channels=3)
    records = load(str(tmp_path / "own.parquet"), n_classes=2)
    assert records.images[:, :, 0, 0].tolist() == [[1] * 3, [2] * 3, [3] * 3]
    grey = load(str(tmp_path / "own.parquet"), n_classes=2, channels=1)
    assert grey.images[:, 0, 0, 0].tolist() == [1, 2, 3]
    rows = pa.table({"img": [*images, packed(4, size=(30, 20))], "labels": [0, 1, 1, 0]})
    pq.write_table(rows, tmp_path / "own.parquet")
    with pytest.raises(DataLensError, match=r"img 3 of .*20x30.*--image-size"):
        load(str(tmp_path / "own.parquet"), n_classes=2)
    small = load(str(tmp_path / "own.parquet"), n_classes=2, image_size=9, channels=3)
    assert small.public.shape == (3, 9, 9)


@pytest.mark.parametrize(
    "rows, sentence",
    [
        (lambda: table([None] * 40), "lies elsewhere"),
        (lambda: table([{"bytes": None, "path": "a.png"}] * 40), "lies elsewhere"),
        (
            lambda: table([{"bytes": b"words", "path": None}] * 40),
            "image 0 of .* no image of a format",
        ),
        (lambda: table(labels=[None] + [0] * 39), "label 0 of .* is missing"),
        (lambda: table(labels=[9] * 40), "position 0 is 9"),
        (lambda: table(labels=["ant"] * 40), "column of whole numbers"),
        (lambda: table(names=["ant"] * 3), "must differ"),
        (lambda: table(names=["ant"]), "2 to 1000 classes"),
        (lambda: table().slice(0, 0), "no rows"),
        (lambda: table().drop_columns(["image"]), "column of images"),
        (lambda: table().append_column("other", pa.array(LABELS)), None),
        (
            lambda: table(label="fine").append_column("coarse", pa.array(LABELS)),
            None,
        ),
        (
            lambda: table(label="fine", names=None).append_column("coarse", pa.array(LABELS)),
            "called label, but its columns of whole numbers are fine, coarse",
        ),
    ],
)
def test_other_tables(tmp_path: Path, rows: Any, sentence: str | None) -> None:
    pq.write_table(rows(), tmp_path / "own.parquet")
    if sentence is None:
        assert load(str(tmp_path / "own.parquet")).labels.tolist() == LABELS.tolist()
        return
    with pytest.raises(DataLensError, match=sentence) as error:
        load(str(tmp_path / "own.parquet"))
    assert "own.parquet" in str(error.value)


def test_files_must_agree(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "train-0.parquet")
    pq.write_table(table(names=["x", "y", "z"]), tmp_path / "train-1.parquet")
    with pytest.raises(DataLensError, match="different columns or classes"):
        load(str(tmp_path))


def test_a_fingerprint_sees_every_byte(file: Path) -> None:
    before = fingerprint(str(file))
    pq.write_table(table(labels=LABELS[::-1]), file, row_group_size=9)
    assert fingerprint(str(file)) != before


def test_without_the_optional_part_it_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("datalens.data.tables.import_module", absent)
    with pytest.raises(DataLensError, match=r"pip install 'datalens\[parquet\]'"):
        load(str(file))
