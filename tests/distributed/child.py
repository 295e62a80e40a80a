"""One rank: the command line in a process of its own. Run with these names already set."""

import os
import sys

import torch

environment: dict[str, str]
words: list[str]
stdout: str
stderr: str

for stream, path in ((1, globals()["stdout"]), (2, globals()["stderr"])):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
os.environ.update(globals()["environment"])
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
os.chdir(os.environ.get("START_IN", "."))
sys.argv = ["datalens", *globals()["words"]]

from datalens.workflows.cli import main  # noqa: E402

main()
