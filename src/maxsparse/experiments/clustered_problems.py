"""Dictionaries and signals of the experiment ``clustered``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import dictionaries
from maxsparse._core.validation import FloatArray
from maxsparse.dictionaries import ClusteredDictionary
from maxsparse.experiments.bases import clustered_bases
from maxsparse.experiments.methods import Problem

__all__ = ["cancelling", "clustered_signals", "longest", "nested_signals", "problem_of", "signs_agree"]


def problem_of(settings: dict[str, Any], task: dict[str, Any]) -> tuple[Problem, FloatArray, FloatArray]:
    """Return the problem of a task with its signals, X (N, m) and Y (N, n)."""
    rng = np.random.default_rng(1000 + task["seed"])
    if task["kind"] == "nested":
        own = settings["nested"]
        within = dictionaries.nested(
            own["n"], own["m"], clusters=own["clusters"], epsilon=own["epsilon"], rng=task["seed"]
        )
        *k_c, k_x = own["counts"]
        X = nested_signals(within.parents, settings["N"], own["counts"], within.parts[0].shape[1], rng)
        return Problem(within, k_x, cluster_sparsity=tuple(k_c)), X, X @ within.matrix.T
    if task["kind"] in ("proved", "cancelled"):
        return _proved(settings["proved"], task, rng)
    n, m, c = settings["n"], settings["m"], task.get("clusters", settings["clusters"])
    epsilon = task.get("epsilon", settings["count_epsilon"])
    dictionary = dictionaries.clustered(
        n, m, clusters=c, epsilon=epsilon, normalise=task["kind"] != "unscaled", rng=task["seed"]
    )
    X, Y = clustered_signals(dictionary, settings["N"], task["k_x"], task["k_c"], rng)
    removable = c if "clusters" in task and c < n else None
    return Problem(dictionary, task["k_x"], removable, task["k_c"]), X, Y


def _proved(
    proved: dict[str, Any], task: dict[str, Any], rng: np.random.Generator
) -> tuple[Problem, FloatArray, FloatArray]:
    """Return a problem for which the condition of Proposition 3 is proved."""
    dictionary = clustered_bases(proved["n"], task["epsilon"], np.random.default_rng(task["seed"]))
    if task["kind"] == "cancelled":
        X = cancelling(dictionary, proved["N"], rng)
        return Problem(dictionary, 2, cluster_sparsity=1), X, X @ dictionary.matrix.T
    k_x, k_c = proved["k_x"], proved["k_c"]
    X, Y = clustered_signals(dictionary, proved["N"], k_x, k_c, rng)
    return Problem(dictionary, k_x, cluster_sparsity=k_c), X, Y


def clustered_signals(
    dictionary: ClusteredDictionary, N: int, k_x: int, k_c: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw signals with k_x nonzeros in exactly k_c clusters, amplitudes ±U[0.1, 0.5]; X (N, m) and Y (N, n)."""
    X = nested_signals((dictionary.labels,), N, (k_c, k_x), dictionary.centers.shape[1], rng)
    return X, X @ dictionary.matrix.T


def nested_signals(
    parents: Sequence[NDArray[np.intp]], N: int, counts: Sequence[int], clusters: int, rng: np.random.Generator
) -> FloatArray:
    """Draw signals with clusters within clusters.

    Parameters
    ----------
    parents : sequence of ndarray
        Clusters of every level below the coarsest, as in :class:`maxsparse.dictionaries.NestedDictionary`.
    N : int
        Number of signals.
    counts : sequence of int
        Active clusters of every level, from coarse to fine, and nonzeros.
    clusters : int
        Number of the coarsest clusters.
    rng : numpy.random.Generator

    Returns
    -------
    X : ndarray of shape (N, m)
    """
    X = np.zeros((N, parents[-1].size))
    members = [
        [np.flatnonzero(labels == j) for j in range(clusters if level == 0 else parents[level - 1].size)]
        for level, labels in enumerate(parents)
    ]
    for x in X:
        chosen = list(rng.choice(clusters, counts[0], replace=False))
        for inside, count in zip(members, counts[1:], strict=True):
            found = [rng.choice(inside[j]) for j in chosen]
            others = np.setdiff1d(np.concatenate([inside[j] for j in chosen]), found)
            chosen = found + list(rng.choice(others, count - len(found), replace=False))
        x[chosen] = rng.uniform(0.1, 0.5, len(chosen)) * rng.choice([-1.0, 1.0], len(chosen))
    return X


def cancelling(dictionary: ClusteredDictionary, N: int, rng: np.random.Generator) -> FloatArray:
    """Draw signals with two nonzeros, 1 and −1, in one cluster, (N, m)."""
    X = np.zeros((N, dictionary.shape[1]))
    for x in X:
        inside = np.flatnonzero(dictionary.labels == rng.integers(dictionary.centers.shape[1]))
        x[rng.choice(inside, 2, replace=False)] = 1.0, -1.0
    return X


def signs_agree(X: FloatArray, labels: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for every signal whether the nonzeros within each cluster have one sign, (N,)."""
    clusters = np.eye(labels.max() + 1)[labels]
    agree: NDArray[np.bool_] = ((X > 0) @ clusters * ((X < 0) @ clusters) == 0).all(axis=1)
    return agree


def longest(dictionary: ClusteredDictionary, scores: FloatArray, k: int) -> float:
    """Return the share of the k best-scored atoms of all signals that are the longest of their cluster."""
    sizes = np.linalg.norm(dictionary.matrix, axis=0)
    best = np.array([sizes[dictionary.labels == j].max() for j in range(dictionary.centers.shape[1])])
    is_longest = sizes == best[dictionary.labels]
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return float(is_longest[chosen].mean())
