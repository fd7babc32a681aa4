"""A process that forks after a first call: its children must answer, not wait for threads they do not have."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import joblib
import numpy as np
import pytest

import maxsparse as ms

TIMEOUT = 300  # seconds; a child that waits for ever fails the test instead of stopping it
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    # Python 3.12 warns of forking with threads, which is what this is about.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Phi = ms.dictionaries.gaussian(12, 30, rng=0)


def solve(seed):
    return ms.solvers.omp(Phi, ms.signals.sample(Phi, 64, sparsity=2, rng=seed)[1], sparsity=2).coef


def recover(seed, model=None):
    """Answer with networks, decoding and search; without easy_first all of them run."""
    model = model or ms.SparseRecoverer(Phi, noise=0.0)
    result = model.recover(ms.signals.sample(Phi, 16, sparsity=6, rng=seed)[1], easy_first=False)
    return np.hstack([result.coef, result.scores])


def fork_pool(function):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map_async(function, range(4)).get(timeout=TIMEOUT)
        pool.close()
        pool.join()
    return answers


def joblib_pool(function):
    parallel = joblib.Parallel(n_jobs=2, backend="multiprocessing", timeout=TIMEOUT)
    return parallel(joblib.delayed(function)(seed) for seed in range(4))


def one_child(function):
    """Fork without a pool, and answer through a pipe."""
    context = multiprocessing.get_context("fork")
    answers = []
    for seed in range(4):
        ours, theirs = context.Pipe()
        child = context.Process(target=lambda seed=seed, end=theirs: end.send(function(seed)))
        child.start()
        assert ours.poll(TIMEOUT)
        answers.append(ours.recv())
        child.join(TIMEOUT)
        assert child.exitcode == 0
    return answers


@pytest.mark.parametrize("pool", [fork_pool, joblib_pool, one_child])
@pytest.mark.parametrize("function", [solve, recover])
def test_forked_children_answer_as_their_parent(pool, function):
    expected = [function(seed) for seed in range(4)]
    for answer, right in zip(pool(function), expected, strict=True):
        np.testing.assert_array_equal(answer, right)


def test_a_used_model_is_sent_to_children():
    """Its caches and threads are the parent's; what arrives answers alike."""
    model = ms.SparseRecoverer(Phi, noise=0.0)
    expected = [recover(seed, model) for seed in range(4)]
    for answer, right in zip(joblib_pool(partial(recover, model=model)), expected, strict=True):
        np.testing.assert_array_equal(answer, right)


def fail(seed):
    ms.solvers.omp(Phi, np.full((3, 12), np.nan), sparsity=2)


def test_an_error_in_a_child_reaches_its_parent():
    """By an executor: a pool ends its children by a signal, and may wait for ever for a lock that one of them held."""
    solve(0)
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=fork) as pool, pytest.raises(ValueError, match="NaN"):
        pool.submit(fail, 0).result(timeout=TIMEOUT)
