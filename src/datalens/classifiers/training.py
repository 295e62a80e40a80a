"""A classifier in training: one noisy step at a time, each on a random part of the records."""

import torch
import torch.nn.functional as F
from torch import Tensor

from datalens.classifiers.dpsgd import poisson_sample, with_example_gradients
from datalens.classifiers.networks import Network
from datalens.classifiers.topagg import TopAggOptimizer
from datalens.data import Records
from datalens.mechanism.noise import FloatNoise


class PrivateTraining:
    """Gradient descent on the cross-entropy of labels.

    Guarantee: a step depends on the records through `TopAggOptimizer` alone. A record takes part
    with probability `batch_size` / n, by the secret, and adds at most sqrt(keep) times
    `max_grad_norm` to the sum that is noised. Inputs are prepared record by record.
    """

    def __init__(
        self,
        network: Network,
        records: Records,
        *,
        secret: bytes,
        noise: FloatNoise,
        noise_multiplier: float,
        batch_size: int,
        steps: int,
        max_grad_norm: float,
        learning_rate: float,
        keep: float,
        at_once: int,
    ) -> None:
        self.network = network
        self._records, self._secret = records, secret
        self._probability = batch_size / records.public.n_records
        self._steps, self._rate, self._at_once = steps, learning_rate, at_once
        self._inputs: Tensor | None = None
        self._watched = with_example_gradients(network)
        self._descent = torch.optim.SGD(network.parameters(), lr=learning_rate)
        self._private = TopAggOptimizer(
            self._descent,
            noise=noise,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            expected_batch_size=batch_size,
            keep=keep,
        )

    def step(self, number: int) -> None:
        """One noisy step, on whoever is drawn; nobody may be. Its length falls with its number."""
        if self._inputs is None:  # not before a step is to be taken, which is paid then
            self._inputs = self.network.inputs(self._records.images)
        n_records = self._records.public.n_records
        drawn = poisson_sample(n_records, self._probability, self._secret, number)
        rows = torch.from_numpy(self._records.rows(drawn))
        for some in rows.split(self._at_once):
            if len(some):
                labels = torch.from_numpy(self._records.labels)[some]
                scores = self._watched(self._inputs[some])
                F.cross_entropy(scores, labels, reduction="sum").backward()
                self._private.accumulate()
        for group in self._descent.param_groups:
            group["lr"] = self._rate * (1 - number / self._steps)
        self._private.step_on(0, key=f"dp-sgd/{number}")
