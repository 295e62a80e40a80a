"""Tables on disk, in Parquet or as Arrow streams, read a few rows at a time.

Both need the optional part `parquet`, which brings the library that reads them.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from datalens.data.documents import reading
from datalens.errors import DataLensError

_ROWS = 16
"""Held at a time: a packed column can repeat one large picture without end."""
_LONGEST_TEXT, _LONGEST_LIST = 16 * 2**20, 2**20
"""Bytes of a text and entries of a list in a Parquet file's own description."""


def arrow(module: str = "pyarrow") -> Any:
    """The library, or one of its modules, if it is installed."""
    try:
        return import_module(module)
    except ImportError:
        raise DataLensError(
            "Parquet and Arrow files need an optional part: install it with "
            "pip install 'datalens[parquet]'."
        ) from None


def is_parquet(file: Path) -> bool:
    """By its name, in any case."""
    return file.suffix.lower() == ".parquet"


def schema_of(file: Path) -> Any:
    """The columns of a table and its metadata."""
    if is_parquet(file):
        with reading(file), _parquet(file) as table:
            return table.schema_arrow
    pyarrow = arrow()
    with reading(file), pyarrow.memory_map(str(file)) as source:
        return arrow("pyarrow.ipc").open_stream(source).schema


def batches_of(file: Path, columns: Sequence[str]) -> Iterator[Any]:
    """These columns, a few rows at a time."""
    with reading(file):
        if is_parquet(file):
            with _parquet(file) as table:
                yield from table.iter_batches(_ROWS, columns=list(columns), use_threads=False)
            return
        with arrow().memory_map(str(file)) as source:
            for batch in arrow("pyarrow.ipc").open_stream(source):
                batch.validate(full=True)  # its lengths and places are only claims until then
                few = batch.select(list(columns))
                for start in range(0, len(few), _ROWS):
                    yield few.slice(start, _ROWS)


def _parquet(file: Path) -> Any:
    return arrow("pyarrow.parquet").ParquetFile(
        file,
        pre_buffer=False,
        buffer_size=2**20,
        thrift_string_size_limit=_LONGEST_TEXT,
        thrift_container_size_limit=_LONGEST_LIST,
    )
