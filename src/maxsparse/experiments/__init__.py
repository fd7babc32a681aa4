"""The paper's figures and tables as experiments: each defines problem, methods, measures and claims.

>>> from maxsparse import experiments
>>> "rank-one" in experiments.names()
True

Add an experiment or a method from outside the package with :func:`register`, or with an entry point of the group
``maxsparse.experiments``; CONTRIBUTING.md shows both.
"""

from maxsparse.experiments.data import Data, Record
from maxsparse.experiments.experiment import Claim, Experiment, Picture, Table, Verdict
from maxsparse.experiments.methods import Method, Problem
from maxsparse.experiments.presets import PRESETS
from maxsparse.experiments.recipes import Recipe, current_store
from maxsparse.experiments.registry import get, methods, names, register
from maxsparse.experiments.runner import Interrupted, Outcome, run
from maxsparse.experiments.training_plans import Training

__all__ = [
    "PRESETS",
    "Claim",
    "Data",
    "Experiment",
    "Interrupted",
    "Method",
    "Outcome",
    "Picture",
    "Problem",
    "Recipe",
    "Record",
    "Table",
    "Training",
    "Verdict",
    "current_store",
    "get",
    "methods",
    "names",
    "register",
    "run",
]
