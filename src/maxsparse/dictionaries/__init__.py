"""Dictionaries Φ of the paper, as (n, m) arrays: n measurements by m atoms, with atoms of norm 1.

>>> import maxsparse as ms
>>> ms.dictionaries.gaussian(20, 100, rng=0).shape
(20, 100)
"""

from maxsparse.dictionaries.clusters import ClusteredDictionary, clustered
from maxsparse.dictionaries.given import lighting, load
from maxsparse.dictionaries.nested import NestedDictionary, nested
from maxsparse.dictionaries.random import decaying, gaussian, low_rank_plus

__all__ = [
    "ClusteredDictionary",
    "NestedDictionary",
    "clustered",
    "decaying",
    "gaussian",
    "lighting",
    "load",
    "low_rank_plus",
    "nested",
]
