"""Many calls leave nothing behind; forked, spawned and parallel processes get the answers that one process gets."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maxsparse as ms

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "long_run.py"
PHI = ms.dictionaries.decaying(12, 40, rng=0)
_, Y = ms.signals.sample(PHI, 40, sparsity=3, rng=1)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("minutes", [0.2, pytest.param(120.0, marks=pytest.mark.long)])
def test_memory_is_flat_and_no_thread_or_handle_is_left(tmp_path, minutes):
    program = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
from long_run import WAYS, run, summarise
short = dict(every=0.5, pause=0.0, warm_up=2 * len(WAYS), repeat=True)
figures = summarise(run({60 * minutes}, **(short if {minutes} < 1 else {{}})))
assert len(figures["threads"]) == 1, figures
assert len(figures["handles"]) == 1, figures
grown = figures["megabytes, most in the second half"] - figures["megabytes, most in the first half"]
assert grown < 30.0, figures
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def recover(path):
    """Recover with a model from a file: what a worker does."""
    result = ms.load(path).recover(Y)
    return result.coef, result.certified


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_give_the_same_bits(tmp_path, way):
    if way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {way} here")
    path = tmp_path / "model.safetensors"
    ms.SparseRecoverer(PHI, budget=50, n_threads=1).save(path)
    program = f"""
import multiprocessing, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_long_run import recover
import numpy as np
if __name__ == "__main__":
    with multiprocessing.get_context({way!r}).Pool(2) as pool:
        found = pool.map(recover, [{str(path)!r}] * 3)
    for coef, certified in found:
        np.testing.assert_array_equal(coef, found[0][0])
    np.savez({str(tmp_path / "found.npz")!r}, coef=coef, certified=certified)
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found, (coef, certified) = np.load(tmp_path / "found.npz"), recover(path)
    np.testing.assert_array_equal(found["coef"], coef)
    np.testing.assert_array_equal(found["certified"], certified)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.parametrize("how", ["os.fork", "multiprocessing", "joblib"])
def test_forks_of_a_process_that_has_recovered_give_the_same_answers(tmp_path, how):
    """Threads do not survive a fork: a child that waited for its parent's would wait for ever."""
    program = f"""
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of every fork of a process with threads
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import maxsparse as ms
from test_long_run import PHI, Y
model = ms.SparseRecoverer(PHI, budget=50)
coef = model.recover(Y).coef
def same(number):
    return bool((model.recover(Y).coef == coef).all())
if {how!r} == "os.fork":
    child = os.fork()
    if child == 0:
        os._exit(0 if same(0) else 1)
    answers = [os.waitpid(child, 0)[1] == 0]
elif {how!r} == "multiprocessing":
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map(same, range(4))
else:
    import joblib
    answers = joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(same)(i) for i in range(4))
print(all(answers) and same(0))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True"


def test_two_processes_share_a_cache_of_compiled_code_and_a_model_file(tmp_path):
    """Both begin with an empty cache at the same time: each compiles, or loads what the other has just written."""
    path = tmp_path / "model.safetensors"
    ms.SparseRecoverer(PHI, budget=50, n_threads=1).save(path)
    program = f"""
import sys
import numpy as np
import maxsparse as ms
from maxsparse._core.linalg import residual_norms
Phi = ms.dictionaries.decaying(12, 40, rng=0)
_, Y = ms.signals.sample(Phi, 40, sparsity=3, rng=1)
ms.load({str(path)!r}).save({str(path)!r})
np.save(sys.argv[1], residual_norms(Y, np.ascontiguousarray(Phi.T), np.ones((40, 40))))
assert (ms.load({str(path)!r}).Phi == Phi).all()
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", program]
    running = [
        subprocess.Popen([*command, str(tmp_path / f"{i}.npy")], env=environment, stderr=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    for process in running:
        assert process.wait(timeout=300) == 0, process.stderr.read()
    found = [np.load(tmp_path / f"{i}.npy") for i in range(2)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], np.linalg.norm(Y - np.ones((40, 40)) @ PHI.T, axis=1), rtol=1e-12)
    assert sorted(p.name for p in tmp_path.glob("*")) == ["0.npy", "1.npy", "cache", "model.safetensors"]
