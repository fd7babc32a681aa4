"""Scores → coefficients → search → certificate: recovery that reports which of its answers are certified."""

from maxsparse.recovery.answers import Recovery
from maxsparse.recovery.bounds import Bounds, noise_radius, prove
from maxsparse.recovery.certificate import Certificates, certify, spark_bound
from maxsparse.recovery.posterior import CredibleSet
from maxsparse.recovery.recoverer import SparseRecoverer, load

__all__ = [
    "Bounds",
    "Certificates",
    "CredibleSet",
    "Recovery",
    "SparseRecoverer",
    "certify",
    "load",
    "noise_radius",
    "prove",
    "spark_bound",
]
