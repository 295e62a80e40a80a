"""What is compiled is kept under a name that changes with every file that it has code of."""

from pathlib import Path

from datalens.ensemble import compiling


def test_every_file_with_compiled_loops_counts() -> None:
    folder = Path(compiling.__file__).parent
    found = {path.stem for path in folder.glob("*.py") if "@compiled" in path.read_text()}
    assert found and found <= set(compiling.SOURCES)
    assert all((folder / f"{name}.py").exists() for name in compiling.SOURCES)
