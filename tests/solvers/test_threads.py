"""Threads of compiled loops live beside those of torch and of other programs."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("first", ["torch", "maxsparse.solvers"])
def test_solving_leaves_torch_its_number_of_threads(first):
    counts = run(
        f"""
        import {first}
        import torch
        import maxsparse as ms
        torch.set_num_threads(1)
        Phi = ms.dictionaries.gaussian(5, 10, rng=0)
        ms.solvers.omp(Phi, Phi.T, sparsity=1)
        print(torch.get_num_threads())
        torch.set_num_threads(2)
        ms.solvers.omp(Phi, Phi.T, sparsity=1, n_threads=1)
        print(torch.get_num_threads())
        """
    )
    assert counts == ["1", "2"]


def test_a_callers_choice_of_waiting_stays():
    code = "import maxsparse, os; print(os.environ['GOMP_SPINCOUNT'])"
    assert run(code, GOMP_SPINCOUNT="7") == ["7"]
