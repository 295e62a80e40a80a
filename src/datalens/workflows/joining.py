"""The processes that torchrun starts, from their meeting to their common end."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from datalens import __version__
from datalens.ensemble import ALONE, RankFailed, Ranks
from datalens.errors import DataLensError, sentence
from datalens.synthesizers.session import Stopped

LONGEST_TIMEOUT = 7 * 24 * 3600
"""Seconds: a week."""


class Ended(BaseException):
    """Somebody outside has told this process to end, as torchrun does when another has died.

    It can come anywhere, so it is no kind of error that code in its way might handle.
    """


@contextmanager
def joined(*, timeout: float, device: str = "cpu") -> Iterator[Ranks]:
    """All ranks of this run, or this process alone where torchrun has not started it.

    Whatever ends one rank ends all, each with the same sentence.
    """
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise DataLensError(
            f"--rank-timeout must be a number of seconds up to {LONGEST_TIMEOUT:,}, got {timeout}."
        )
    own = device_of(device)
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
        yield Ranks(device=own)
        return
    ranks = ALONE
    with _signals():
        try:
            ranks = Ranks.meet(timeout=timeout, device=own)
            threads = str(torch.get_num_threads())
            ranks.agree("the version of datalens", __version__)
            ranks.agree("the version of PyTorch", torch.__version__)
            ranks.agree("the number of threads", threads, remedy="set OMP_NUM_THREADS")
            yield ranks
        except BaseException as error:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already, and says why first
            _end_together(ranks, error)
            raise
        finally:
            ranks.close()


def device_of(name: str) -> torch.device:
    """Where this process computes. Of several GPUs, each rank on a machine takes its own."""
    if name == "cpu":
        return torch.device("cpu")
    if name != "cuda":
        raise DataLensError(f"--device must be cpu or cuda, got {name!r}.")
    if not torch.cuda.is_available():
        raise DataLensError("--device cuda needs a GPU that PyTorch can use; leave it out here.")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _end_together(ranks: Ranks, error: BaseException) -> None:
    """Tell the others. What another rank has said is more to the point than an order to end."""
    if isinstance(error, Stopped | KeyboardInterrupt):
        ranks.fail("", stop=True)
    elif isinstance(error, Ended):
        known = RankFailed(ranks.last_word() or str(error))
        ranks.fail(str(known))
        raise known from None
    else:
        whose = "" if isinstance(error, RankFailed) else f"rank {ranks.rank}: "
        ranks.fail(whose + sentence(error))


@contextmanager
def _signals() -> Iterator[None]:
    """Only rank 0 hears Ctrl-C, and stops all; an order to end comes as an error."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended(
            f"rank {os.environ['RANK']} was told to end (SIGTERM); nothing released is lost: go on"
            " with --resume."
        )

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, end)}
    if os.environ["RANK"] != "0":
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    for number, handler in before.items():  # not after an error: then the process ends
        signal.signal(number, handler)
