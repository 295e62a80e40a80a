# ruff: noqa: F821
"""One rank: the command line in a process of its own, started with these names already set."""

import os
import sys

import torch

environment: dict[str, str]
words: list[str]
stdout: str
stderr: str

for stream, path in ((1, stdout), (2, stderr)):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
os.environ.update(environment)
os.chdir(environment.get("START_IN", "."))
torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
sys.argv = ["datalens", *words]

from datalens.workflows.cli import main  # noqa: E402

main()
