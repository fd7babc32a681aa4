"""Which places in the brain are active? Sparse source localisation of M/EEG with MNE-Python."""

from __future__ import annotations

from maxsparse.fields.brain.answer import BrainSources
from maxsparse.fields.brain.inverse import sparse_inverse
from maxsparse.fields.brain.locate import solver
from maxsparse.fields.brain.simulate import simulate, sphere_head

__all__ = ["BrainSources", "simulate", "solver", "sparse_inverse", "sphere_head"]
