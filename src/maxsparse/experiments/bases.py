"""Dictionaries of two or three orthonormal bases: overcomplete, with provably small isometry constants.

Random dictionaries meet δ_3k < 1/√32 only with thousands of rows, where nothing can be certified. Bases whose atoms
have cosines ±1/√n with those of the others (mutually unbiased bases) meet it at a few hundred.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from maxsparse._core.validation import FloatArray
from maxsparse.dictionaries import ClusteredDictionary

__all__ = ["clustered_bases", "two_bases", "unbiased_constant"]


def two_bases(n: int) -> FloatArray:
    """Return [I, H/√n], (n, 2n), for n a power of two."""
    from scipy.linalg import hadamard

    return np.hstack([np.eye(n), hadamard(n) / math.sqrt(n)])


def clustered_bases(n: int, epsilon: float, rng: np.random.Generator) -> ClusteredDictionary:
    """Return a clustered dictionary with n clusters of two atoms, for n a power of four.

    The centres are the unit vectors. Cluster j has the details h_j and Bh_j with B = diag((−1)^q(i)) for the bent
    function q = x₁x₂ + x₃x₄ + … of the bits of i. Its Walsh transform is ±√n, which makes I, H/√n and BH/√n unbiased.
    """
    from scipy.linalg import hadamard

    bits = (np.arange(n)[:, None] >> np.arange(n.bit_length() - 1)) & 1
    signs = 1.0 - 2.0 * ((bits[:, 0::2] * bits[:, 1::2]).sum(axis=1) % 2)
    H = hadamard(n) / math.sqrt(n)
    A = np.stack([H, signs[:, None] * H], axis=2).reshape(n, 2 * n)
    labels = np.repeat(np.arange(n), 2)
    v = rng.uniform(0.5, 1.5, 2 * n)
    unscaled = np.eye(n)[:, labels] * v + epsilon * A
    norms = 1.0 / np.linalg.norm(unscaled, axis=0)
    return ClusteredDictionary(unscaled * norms, np.eye(n), A, labels, v, norms, epsilon)


def unbiased_constant(n: int, bases: int, k: int) -> float:
    """Bound δ_k for mutually unbiased bases of dimension n.

    Blocks of G − I between a atoms of one basis and b of another have entries ±1/√n, hence norm at most √(ab/n); within
    a basis they vanish. The norm of G − I is at most that of the matrix of these bounds, for the worst split of k.
    """
    worst = 0.0
    for split in itertools.product(range(k + 1), repeat=bases):
        if sum(split) == k:
            root = np.sqrt(np.array(split, dtype=np.float64))
            bound = np.outer(root, root)
            np.fill_diagonal(bound, 0.0)
            worst = max(worst, float(np.linalg.eigvalsh(bound)[-1]))
    return worst / math.sqrt(n)
