"""The methods, one file each, behind one protocol."""

from datalens.synthesizers.class_gaussian import ClassGaussian
from datalens.synthesizers.datalens import DataLens
from datalens.synthesizers.protocol import Synthesizer, Synthetic
from datalens.synthesizers.registry import METHODS

__all__ = ["METHODS", "ClassGaussian", "DataLens", "Synthesizer", "Synthetic"]
