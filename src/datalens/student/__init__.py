"""Releases to generator."""

from datalens.student.dcgan import DcganGenerator
from datalens.student.gaussian import GaussianModel, Grain, class_centres, fit_gaussian
from datalens.student.generator import Generator
from datalens.student.mixture import MixtureModel
from datalens.student.student import Student

__all__ = [
    "DcganGenerator",
    "GaussianModel",
    "Generator",
    "Grain",
    "MixtureModel",
    "Student",
    "class_centres",
    "fit_gaussian",
]
