"""Inception Score: are images clear, and of all kinds? (Salimans et al. 2016)"""

import numpy as np
from numpy.typing import NDArray


def inception_score(probabilities: NDArray[np.float64]) -> float:
    """exp of the mean divergence of p(class | image), a row each, from p(class).

    Between 1, where every image looks the same to the classifier, and the number of classes. All
    images at once: no split into parts, which would lower it.
    """
    mean = probabilities.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = probabilities * (np.log(probabilities) - np.log(mean))
    divergence = np.where(probabilities > 0, terms, 0.0).sum(1)
    return float(np.exp(divergence.mean()))
