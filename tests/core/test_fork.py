"""A process that forks after a first call: its children must answer, not wait for threads they do not have."""

import multiprocessing
import os

import numpy as np
import pytest

import maxsparse as ms


def solve(seed):
    Phi = ms.dictionaries.gaussian(12, 30, rng=0)
    return ms.solvers.omp(Phi, ms.signals.sample(Phi, 64, sparsity=2, rng=seed)[1], sparsity=2).coef


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
# Python 3.12 warns of forking with threads, which is what this is about.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_answer_as_their_parent():
    expected = [solve(seed) for seed in range(4)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map_async(solve, range(4)).get(timeout=120)
    for answer, right in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(answer, right)
