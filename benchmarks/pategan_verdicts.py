"""What `pategan`'s student and generator make of verdicts that are right: where colours go wrong.

    python benchmarks/pategan_verdicts.py mnist fashion-mnist celeba-hair --seeds 3

In place of teachers there is one who knows: the verdict on an image is exp(-d), d being its squared
distance from its class's mean in units of the records' own spread. A student that learns from that
comes nearer; so verdicts rise. It is also asked with pixels centred (0 is grey, and not black).
No privacy is at stake: this is about the public half of the method, on public records.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from datalens.data import Records, load
from datalens.ensemble.streams import stream
from datalens.student.adversary import Adversary, Lesson
from datalens.student.dense_critic import DenseCritic
from datalens.student.generator import Generator
from datalens.synthesizers.pategan_plan import PateGanSettings
from datalens.workflows.bench.tables import for_markdown

CHOSEN = PateGanSettings(epsilon=10.0)
STEPS = 100


class Centred(DenseCritic):
    """As it is, but a pixel in the middle between black and white is nothing to it."""

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return super().forward(images - 0.5, labels)


def lessons(
    records: Records, critic: type[DenseCritic], seed: bytes
) -> Iterator[tuple[float, float]]:
    """Of each step, how bright proposals are and what is thought of them."""
    images, labels = torch.from_numpy(records.images) / 255, torch.from_numpy(records.labels)
    shape, n_classes = records.public.shape, records.public.n_classes
    means = torch.stack([images[labels == c].mean(0) for c in range(n_classes)])
    spread = (images - means[labels]).square().mean()
    student = Adversary(
        Generator(shape, n_classes, CHOSEN.latent, stream=stream(seed, "generator", 0)),
        critic(shape, n_classes, stream=stream(seed, "critic", 0), soft=CHOSEN.soft),
        secret=seed,
        learning_rate=CHOSEN.generator_learning_rate,
        critic_learning_rate=CHOSEN.student_learning_rate,
        moving_average=CHOSEN.moving_average,
        lesson=Lesson(
            steps=STEPS,
            critic_updates=CHOSEN.student_updates,
            generator_updates=CHOSEN.generator_updates,
            batch_size=CHOSEN.batch_size,
            remembered=CHOSEN.remembered,
            diversity=CHOSEN.diversity,
        ),
    )
    for step in range(STEPS):
        chance = stream(seed, "labels", step)
        asked = torch.randint(n_classes, (CHOSEN.batch_size,), generator=chance)
        proposed = student.propose(asked, step=step)
        verdicts = torch.exp(-(proposed - means[asked]).square().mean((1, 2, 3)) / spread)
        yield float(proposed.mean()), float(verdicts.mean())
        student.learn(proposed, asked, verdicts, step=step)


def shown(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("datasets", nargs="+")
    options.add_argument("--data-dir", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    torch.set_num_threads(1)
    started, rows = time.monotonic(), []
    for name in given.datasets:
        records = load(name, data_dir=given.data_dir)
        for words, critic in {"as it is": DenseCritic, "centred": Centred}.items():
            ends = []
            for seed in range(given.seeds):
                every = list(lessons(records, critic, b"seed %d" % seed))
                ends.append((*every[0], *every[-1]))
            bright, verdict, bright_after, verdict_after = map(list, zip(*ends, strict=True))
            cells = map(shown, (bright, bright_after, verdict, verdict_after))
            rows.append([name, words, f"{records.images.mean() / 255:.2f}", *cells])
    heads = ["data", "pixels", "brightness of records", "of first proposals"]
    heads += ["of the last", "verdict on the first", "on the last"]
    print(for_markdown("With verdicts that are right", (heads, rows)))
    minutes = (time.monotonic() - started) / 60
    print(f"\n{STEPS} steps, {given.seeds} seeds, {minutes:.0f} min on one core.")


if __name__ == "__main__":
    main()
