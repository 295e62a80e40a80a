"""Sums over ranks by torch.distributed: gloo between CPUs, NCCL between GPUs."""

import os
import sys
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from datalens.ensemble.links import LOOPBACK, Meeting
from datalens.errors import DataLensError

Integers = NDArray[np.int64]


class Group:
    """The ranks that met, as torch.distributed knows them.

    Guarantee: integers are added, which is exact in any order. Only rank 0 uses the sum; parts of
    it pass through the others on the way.
    """

    def __init__(self, met: Meeting, device: torch.device, timeout: float) -> None:
        self.device = device
        if met.host == LOOPBACK and sys.platform == "linux":
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody from outside can connect
        try:
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=dist.PrefixStore("datalens/sums", met.store),
                rank=met.rank,
                world_size=met.size,
                timeout=timedelta(seconds=timeout),
            )
        except (RuntimeError, ValueError) as error:
            raise DataLensError(_lost("the ranks cannot connect", error)) from None

    def total(self, values: Integers) -> Integers:
        """The sum over all ranks on rank 0; on the others, nothing of meaning."""
        tensor = torch.from_numpy(values.copy()).to(self.device)
        try:
            dist.reduce(tensor, dst=0)
        except RuntimeError as error:
            raise DataLensError(_lost("a rank was lost within a sum", error)) from None
        return tensor.cpu().numpy()

    def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


def _lost(what: str, error: Exception) -> str:
    reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    return f"{what} ({reason}); nothing released is lost: go on with --resume."
