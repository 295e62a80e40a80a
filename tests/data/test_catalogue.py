"""Data sets by name: what is bundled, what is found, and what happens without a network."""

import gzip
import hashlib
import io
import struct
import urllib.request
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

import datalens.data
from datalens.data import catalogue, describe, load
from datalens.data.official import FASHION_MNIST, MNIST
from datalens.errors import DataLensError

BUNDLED = Path(datalens.data.__file__).parent / "bundled"


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


SMALL = {
    "train-images-idx3-ubyte": idx(np.arange(3 * 64).reshape(3, 8, 8)),
    "train-labels-idx1-ubyte": idx(np.array([9, 0, 5])),
    "t10k-images-idx3-ubyte": idx(np.zeros((2, 8, 8))),
    "t10k-labels-idx1-ubyte": idx(np.array([1, 1])),
}


def lay_out(root: Path, name: str = "mnist", *, packed: bool = False) -> Path:
    (root / name).mkdir(parents=True)
    for file, content in SMALL.items():
        target = root / name / (f"{file}.gz" if packed else file)
        target.write_bytes(gzip.compress(content) if packed else content)
    return root


@pytest.fixture(autouse=True)
def cache(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine without a network."""
    serve(monkeypatch, {})
    return empty_machine


def serve(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> list[str]:
    """Mirrors that serve these files by name and nothing else; returns the list of requests."""
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        name = url.rpartition("/")[2]
        if name not in files:
            raise URLError("no network")
        return io.BytesIO(files[name])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def left_behind(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


# What comes with the package


@pytest.mark.parametrize(
    "split, count, sha256",
    [
        ("train", 20_000, "71bb7a4420f9a4dc329740bf41730a82bee233a37c812d5491970eefac21f596"),
        ("test", 2_000, "5e916b2e91811fe46845f5b34d536fd2cb7788e5c5bc5531b5e3b9ee89e9bad9"),
    ],
)
def test_fashion_mini_is_bundled_without_loss(split: str, count: int, sha256: str) -> None:
    records = load("fashion-mini", split=split)  # type: ignore[arg-type]
    assert records.images.shape == (count, 1, 28, 28)
    assert records.public.class_names == FASHION_MNIST.class_names
    assert "published" in records.public.why
    content = records.images.tobytes() + records.labels.astype(np.uint8).tobytes()
    assert hashlib.sha256(content).hexdigest() == sha256


def test_the_bundle_is_small_and_has_its_licence() -> None:
    assert (BUNDLED / "fashion-mini.npz").stat().st_size <= 10_000_000
    assert "Zalando SE" in (BUNDLED / "LICENSE-fashion-mnist").read_text()


def test_digits_come_with_scikit_learn() -> None:
    train, test = load("digits"), load("digits", split="test")
    assert (len(train), len(test)) == (1_400, 397)
    assert train.public.shape == (1, 8, 8)
    assert (train.images.min(), train.images.max()) == (0, 255)
    assert load("digits", image_size=12).public.shape == (1, 12, 12)


# What is found


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_official_files_are_found(tmp_path: Path, name: str, packed: bool) -> None:
    root = lay_out(tmp_path / "data", name, packed=packed)
    train, test = (load(name, split=split, data_dir=root) for split in ("train", "test"))  # type: ignore[arg-type]
    assert train.labels.tolist() == [9, 0, 5]
    assert train.images[2, 0, 0, 1] == 129
    assert len(test) == 2
    # Three records are not what was published, so the publisher is not the reason.
    assert "declared" in train.public.why


def test_folders_are_searched_in_order(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe("mnist").found is None
    for root in (tmp_path / "debian", cache, tmp_path / "environment", tmp_path / "named"):
        lay_out(root)
        monkeypatch.setenv("DATALENS_DATA", str(tmp_path / "environment"))
        data_dir = root if root.name == "named" else None
        assert describe("mnist", data_dir).found == str(root / "mnist")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data")
    file = root / "mnist" / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataLensError, match=f"{file} is truncated"):
        load("mnist", data_dir=root)


def test_images_and_labels_must_agree(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data")
    (root / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(np.array([1])))
    with pytest.raises(DataLensError, match="one per image"):
        load("mnist", data_dir=root)


def test_the_catalogue_reads_and_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, {})
    monkeypatch.setattr("datalens.data.npz._opened", None)
    listed = {description.name: description for description in catalogue()}
    assert list(listed) == [
        *("fashion-mini", "digits", "mnist", "fashion-mnist", "cifar10"),
        *("celeba-gender", "celeba-hair", "places365"),
    ]
    assert listed["fashion-mini"].found
    assert (listed["mnist"].n_records, listed["mnist"].n_test_records) == (60_000, 10_000)
    assert "published" in listed["mnist"].public
    assert not asked


@pytest.mark.parametrize("name", ["fashion-mini", "digits"])
def test_descriptions_are_true(name: str) -> None:
    said, train, test = describe(name), load(name), load(name, split="test")
    assert (said.n_records, said.n_test_records) == (len(train), len(test))
    assert (said.shape, said.class_names) == (train.public.shape, train.public.class_names)


# What is downloaded


def packed_files() -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content) for name, content in SMALL.items()}


@pytest.fixture
def small_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in SMALL.items()}
    monkeypatch.setitem(vars(MNIST), "sha256", sums)  # the dataclass is frozen


@pytest.mark.usefixtures("small_mnist")
def test_a_download_happens_once(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    asked = serve(monkeypatch, packed_files())
    assert len(load("mnist")) == len(load("mnist")) == 3
    assert len(asked) == 2
    assert all(url.startswith("https://") for url in asked)
    assert sorted(path.name for path in left_behind(cache)) == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]


def test_without_a_network_it_says_which_files_go_where(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataLensError) as error:
        load("mnist")
    for said in ("train-images-idx3-ubyte and train-labels-idx1-ubyte", str(cache / "mnist")):
        assert said in str(error.value)
    with pytest.raises(DataLensError, match=str(tmp_path / "fashion-mnist")):
        load("fashion-mnist", split="test", data_dir=tmp_path)
    assert not left_behind(cache)


@pytest.mark.parametrize(
    "served",
    [
        b"",
        b"<html>sign in first</html>",
        gzip.compress(b"other content"),
        gzip.compress(SMALL["train-images-idx3-ubyte"])[:-9],
    ],
    ids=["nothing", "a page", "another file", "a part"],  # a gzip's own bytes hold the time
)
@pytest.mark.usefixtures("small_mnist")
def test_wrong_bytes_are_not_kept(
    monkeypatch: pytest.MonkeyPatch, cache: Path, served: bytes
) -> None:
    serve(monkeypatch, {"train-images-idx3-ubyte.gz": served})
    with pytest.raises(DataLensError, match="SHA-256 differs"):
        load("mnist")
    assert not left_behind(cache)


@pytest.mark.usefixtures("small_mnist")
def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    serve(monkeypatch, packed_files())
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataLensError, match="cannot be written"):
        load("mnist")


@pytest.mark.usefixtures("small_mnist")
def test_a_write_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    serve(monkeypatch, packed_files())

    def refuse(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(DataLensError, match="cannot be written"):
        load("mnist")
    assert not left_behind(cache)


# What is not there


def test_a_name_goes_before_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(load("digits")) == 1_400
    with pytest.raises(DataLensError, match="no images"):
        load("./digits")
    with pytest.raises(DataLensError, match="no images"):
        load(Path("digits"))


@pytest.mark.parametrize("source", ["nowhere", "nowhere.npz", "~nobody-by-this-name/x", "x" * 5000])
def test_unknown_sources_list_the_names(source: str) -> None:
    with pytest.raises(DataLensError, match="fashion-mini, digits, mnist"):
        load(source)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(DataLensError, match=r"data\.csv is neither"):
        load(str(tmp_path / "data.csv"))


def test_other_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataLensError, match="no data set by name"):
        describe("cifar")
    with pytest.raises(DataLensError, match="data-dir"):
        load("mnist", data_dir=tmp_path / "none")
    with pytest.raises(DataLensError, match="split"):
        load("digits", split="validation")  # type: ignore[arg-type]
    with pytest.raises(DataLensError, match="agree"):
        load("digits", n_classes=7)


def test_a_folder_of_data_sets_may_be_a_word_or_a_path(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "data")
    for place in (root, str(root)):
        assert len(load("mnist", data_dir=place)) == 3
        assert len(datalens.data.load_unlabelled("mnist", (1, 8, 8), data_dir=place)[1]) == 2
        assert describe("mnist", place).found == str(root / "mnist")
        assert catalogue(place)[2].found == str(root / "mnist")
        assert datalens.data.fingerprint("mnist", data_dir=place)
        assert not datalens.data.is_two_things("mnist", place)
    with pytest.raises(DataLensError, match=r"data_dir=\) nowhere is no folder"):
        load("mnist", data_dir="nowhere")
