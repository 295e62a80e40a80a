"""Small files that claim, or unpack to, what no memory holds; and files that are none.

What is bounded, and by what. Each case is read in a process of its own whose peak is measured; the
files are at most 2 MB, except those that are all hole.
- An array (IDX, NPZ) takes what its header says, at most 4 GiB (`data.limits.MAX_BYTES`) and, from
  gzip, at most 1,032 times its file; headers are checked against the other facts before content is
  read, content that is longer or shorter than its header is refused in pieces of 1 MiB.
- A picture has at most 2**26 pixels (`data.limits.MAX_PIXELS`), read one after the other, at
  most 12 bytes a pixel at a time.
- JSON is at most 32 MiB and TOML 2 MiB (`data.documents`), both 16 levels deep; parsed they take
  up to 30 times as much. A generator is at most 256 MiB.
"""

import gzip
import io
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from datalens.data import load
from datalens.data.idx import read_idx_images, read_idx_labels

from .judging import confined
from .readers import IMAGES, LABELS, READERS

HEAD = "{'descr': '%s', 'fortran_order': %s, 'shape': %s}"
MEBIBYTE = bytes(2**20)


def npy(
    shape: object, *, dtype: str = "|u1", by_column: bool = False, content: bytes = b""
) -> bytes:
    header = (HEAD % (dtype, by_column, shape)).encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def idx(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


def packed(head: bytes, mebibytes: int) -> bytes:
    """A gzipped file of a header and so many zeros."""
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as file:
        file.write(head)
        for _ in range(mebibytes):
            file.write(MEBIBYTE)
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        idx(2**32 - 1, 2**32 - 1, 2**32 - 1),
        idx(2**32 - 1, 64, 64) + MEBIBYTE,
        packed(idx(2**32 - 1, 1, 1), 1),
        packed(idx(16, 256, 256), 512),
        packed(idx(8192, 256, 256), 1),
        packed(b"", 512),
        gzip.compress(b"") * 20_000,
        b"\x1f\x8b\x08\x08\0\0\0\0\0\0" + b"n" * 2**20,
    ],
    ids=["vast", "large", "vast gz", "goes on", "ends early", "no header", "members", "name"],
)
def test_idx(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(content)
    for read in (read_idx_images, read_idx_labels):
        assert not confined(lambda: read(tmp_path / "own"), names=("own",), mebibytes=32)  # noqa: B023


def test_an_array_takes_what_its_header_says_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(packed(idx(1024, 256, 256), 64))
    assert (tmp_path / "own").stat().st_size < 100_000
    assert confined(lambda: read_idx_images(tmp_path / "own"), names=(), mebibytes=64 + 16)


def whole_members() -> dict[str, bytes]:
    found = {}
    for name, array in (("images", IMAGES), ("labels", LABELS)):
        content = io.BytesIO()
        np.save(content, array)
        found[name] = content.getvalue()
    return found


NPZ: dict[str, dict[str, bytes]] = {
    "vast": {"images": npy((10**12, 8, 8), content=MEBIBYTE)},
    "beyond counting": {"images": npy((10**4000, 8, 8))},
    "rows of nothing": {"images": npy((10**18, 8, 0))},
    "nothing by column": {"images": npy((10**18, 8, 0), by_column=True)},
    "no size": {"images": npy((10**18, 8, 8), dtype="<U0")},
    "ends early": {"images": npy((2**20, 64, 64)), "labels": npy((2**20,), content=MEBIBYTE)},
    "goes on": {"images": npy((12, 8, 8), content=64 * MEBIBYTE)},
    "many labels": {"labels": npy((2**32 - 1,), content=64 * MEBIBYTE)},
    "long names": {"class_names": npy((3,), dtype="<U99999999", content=MEBIBYTE)},
    "many names": {"class_names": npy((10**8,), dtype="<U2", content=MEBIBYTE)},
    "wide pictures": {"images": npy((12, 1, 2**27, 1), content=64 * MEBIBYTE)},
    "stray floats": {"images": npy((12, 256, 256), dtype="<f4", content=b"\xff" * (12 * 2**18))},
    "deep header": {"images": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535},
    "objects": {"images": npy((12, 8, 8), dtype="|O", content=MEBIBYTE)},
    "field names": {"images": npy((12, 8, 8), dtype="|V99999999", content=MEBIBYTE)},
}


@pytest.mark.parametrize("case", NPZ)
@pytest.mark.parametrize("image_size", [None, 8])
def test_npz(case: str, image_size: int | None, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**whole_members(), **NPZ[case]}.items():
            archive.writestr(f"{name}.npy", content)
    read = lambda: load(str(tmp_path / "own.npz"), n_classes=3, image_size=image_size)
    assert not confined(read, names=("own.npz",), mebibytes=48)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_npz_packed_so_that_a_little_unpacks_to_all(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "own.npz", "w", method) as archive:
        for name, content in whole_members().items():
            archive.writestr(f"{name}.npy", content + (48 * MEBIBYTE if name == "images" else b""))
    assert (tmp_path / "own.npz").stat().st_size < 100_000
    read = lambda: load(str(tmp_path / "own.npz"), n_classes=3)
    assert not confined(read, names=("own.npz",), mebibytes=24)


def png(width: int, height: int, *, colour: int = 6, between: bytes = b"", rows: int = 0) -> bytes:
    """A PNG of zeros; the rows need not be as many as it says."""
    body = zlib.compressobj(9)
    channels = {0: 1, 2: 3, 6: 4}[colour]
    pixels = (
        b"".join(body.compress(bytes(1 + width * channels)) for _ in range(rows)) + body.flush()
    )
    head = struct.pack(">2I5B", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + between
        + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )


def chunk(kind: bytes, content: bytes) -> bytes:
    return (
        len(content).to_bytes(4, "big")
        + kind
        + content
        + zlib.crc32(kind + content).to_bytes(4, "big")
    )


TEXT = zlib.compress(64 * MEBIBYTE, 9)
WEBP = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + (16382).to_bytes(3, "little") * 2
SIDE = 2**31 - 1
GIF = b"GIF89a" + b"\xff" * 4 + b"\xf0\0\0" + bytes(6) + b"," + bytes(4) + b"\xff" * 4
GIF += b"\0\x02\x02L\x01\0;"
JPEG = b"\xff\xc0\0\x11\x08\xff\xdc\xff\xdc\x03\x01\x22\0\x02\x11\x01\x03\x11\x01"
PICTURES = {
    "vast.png": png(2**31 - 1, 2**31 - 1),
    "large.png": png(20_000, 20_000, colour=0),
    "text.png": png(8, 8, between=chunk(b"zTXt", b"c\0\0" + TEXT) * 20, rows=0),
    "profile.png": png(8, 8, between=chunk(b"iCCP", b"c\0\0" + TEXT), rows=0),
    "chunk.png": png(8, 8, between=b"\xff\xff\xff\xff" + b"tEXt"),
    "vast.gif": GIF,
    "vast.bmp": b"BM" + struct.pack("<4I2i2H6I", 99, 0, 54, 40, SIDE, SIDE, 1, 24, *[0] * 6),
    "vast.ppm": b"P6 100000 100000 255\n" + MEBIBYTE,
    "plain.ppm": b"P3 8000 8000 255\n" + b"9" * 2**20,
    "vast.jpg": b"\xff\xd8" + JPEG + b"\xff\xd9",
    "vast.webp": b"RIFF" + struct.pack("<I", 4 + len(WEBP)) + b"WEBP" + WEBP,
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name: str, tmp_path: Path) -> None:
    (tmp_path / "pets" / "ant").mkdir(parents=True)
    (tmp_path / "pets" / "bee").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "pets" / "bee" / "1.png")
    (tmp_path / "pets" / "ant" / name).write_bytes(PICTURES[name])
    read = lambda: load(str(tmp_path / "pets"), image_size=8)
    assert not confined(read, names=(name,), mebibytes=96)


@pytest.mark.parametrize("side", [1024, pytest.param(8192, marks=pytest.mark.slow)])
def test_a_picture_takes_12_bytes_a_pixel(side: int, tmp_path: Path) -> None:
    (tmp_path / "pets" / "ant").mkdir(parents=True)
    (tmp_path / "pets" / "bee").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "pets" / "bee" / "1.png")
    (tmp_path / "pets" / "ant" / "1.png").write_bytes(png(side, side, rows=side))
    limit = 12 * side**2 // 2**20 + 16
    assert confined(lambda: load(str(tmp_path / "pets"), image_size=8), names=(), mebibytes=limit)


def document(case: str, kind: str) -> bytes:
    if kind == "json":
        return {
            "nested": b'{"a":' * 10**6,
            "digits": b'{"a": ' + b"9" * 10**6 + b"}",
            "lists": b'{"rows": [' + b"[]," * 300_000 + b"[]]}",
            "names": b"{" + b",".join(b'"%d":1' % i for i in range(30_000)) + b"}",
            "zeros": MEBIBYTE,
        }[case]
    return {
        "nested": b"a = " + b"[" * 10**6,
        "nested lines": b"a = " + b"[\n" * 10**6,
        "dotted": b"a." * 10**6 + b"a = 1",
        "dotted tables": b"".join(b"[" + b"a." * 480 + b"b%d]\n" % i for i in range(500)),
        "digits": b"a = " + b"9" * 1000,
        "lists": b"a = [\n" + b"[],\n" * 100_000 + b"]",
        "names": b"".join(b"a%d=1\n" % i for i in range(30_000)),
        "zeros": MEBIBYTE,
    }[case]


JSON = ("nested", "digits", "lists", "names", "zeros")
TOML = ("nested", "nested lines", "dotted", "dotted tables", "digits", "lists", "names", "zeros")


@pytest.mark.parametrize(
    "name, case",
    [
        *(("preset", case) for case in TOML),
        *(("session", case) for case in JSON),
        *(("verify certificate.json datalens", case) for case in JSON),
        ("sample config.toml datalens", "nested"),
        ("sample certificate.json datalens", "nested"),
        ("sample ledger.json datalens", "nested"),
        ("verify ledger.json datalens", "nested"),
        ("verify config.toml datalens", "nested"),
        ("verify config.toml datalens", "dotted"),
    ],
)
def test_documents(name: str, case: str, tmp_path: Path) -> None:
    """Read or refused; `verify` reads what is JSON, and finds that it is no certificate."""
    reader = READERS[name]
    reader.make(tmp_path)
    file = tmp_path / reader.file
    file.write_bytes(document(case, file.suffix[1:]))
    names = (file.name, "run", *reader.also)
    confined(lambda: reader.read(tmp_path), names=names, mebibytes=160)


TENSORS = {
    "vast header": (2**63 - 1).to_bytes(8, "little"),
    "large header": (99_000_000).to_bytes(8, "little") + b"{" + b" " * 10**6,
    "deep header": (10**6).to_bytes(8, "little") + b'{"a":' * 200_000,
    "vast tensor": b'{"a":{"dtype":"F32","shape":[1000000000000,1000000],"data_offsets":[0,4]}}',
    "overflow": b'{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}',
    "nothing": b'{"a":{"dtype":"F32","shape":[0,1000000000000],"data_offsets":[0,0]}}',
}


@pytest.mark.parametrize("case", TENSORS)
@pytest.mark.parametrize("name", ["sample generator.safetensors datalens", "student", "teachers"])
def test_tensors(case: str, name: str, tmp_path: Path) -> None:
    content = TENSORS[case]
    if content.startswith(b"{"):
        content = len(content).to_bytes(8, "little") + content + bytes(4)
    reader = READERS[name]
    reader.make(tmp_path)
    (tmp_path / reader.file).write_bytes(content)
    names = (Path(reader.file).name, *reader.also)
    assert not confined(lambda: reader.read(tmp_path), names=names, mebibytes=160)


def test_a_release_of_any_size_is_refused(tmp_path: Path) -> None:
    reader = READERS["release"]
    reader.make(tmp_path)
    for content in (
        npy((10**12,), dtype="<i8"),
        npy((2**28,), dtype="<i8"),
        b"PK\x03\x04" + MEBIBYTE,
    ):
        (tmp_path / reader.file).write_bytes(content)
        assert not confined(lambda: reader.read(tmp_path), names=("counts",), mebibytes=32)
