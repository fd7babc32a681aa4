"""The paper's theory as functions: coherence, restricted isometry constants, preconditioners, spark."""

from maxsparse.theory.coherence import coherence, cumulative_coherence
from maxsparse.theory.describe import Description, describe
from maxsparse.theory.layers import GeneralisedIhtLayer, generalised_iht_layer, hard_threshold
from maxsparse.theory.precondition import null_low_rank, precondition
from maxsparse.theory.rip import IHT_THRESHOLD, RipConstant, rip_constant
from maxsparse.theory.rip_minimisation import MinimisedRip, minimise_rip
from maxsparse.theory.uniqueness import Spark, spark

__all__ = [
    "IHT_THRESHOLD",
    "Description",
    "GeneralisedIhtLayer",
    "MinimisedRip",
    "RipConstant",
    "Spark",
    "coherence",
    "cumulative_coherence",
    "describe",
    "generalised_iht_layer",
    "hard_threshold",
    "minimise_rip",
    "null_low_rank",
    "precondition",
    "rip_constant",
    "spark",
]
