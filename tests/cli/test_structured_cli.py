"""``maxsparse solve`` and ``recover`` with signs, groups, snapshots and complex arrays."""

import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from typer.testing import CliRunner

import maxsparse as ms
from maxsparse.cli import app


@pytest.fixture
def Phi(tmp_path, monkeypatch):
    """Go to an empty folder; return a complex dictionary (10, 24)."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    return rng.standard_normal((10, 24)) + 1j * rng.standard_normal((10, 24))


def solve(*arguments):
    return CliRunner().invoke(app, ["solve", *arguments, "--method", "omp", "--sparsity", "2"])


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat"])
def test_complex_snapshots_from_file_to_file(Phi, suffix):
    Y = (np.arange(12).reshape(2, 3, 2) + 1j) @ Phi[:, [4, 9]].T
    for name, array in (("Phi", Phi), ("Y", Y)):
        if suffix == ".npy":
            np.save(name, array)
        elif suffix == ".npz":
            np.savez(name, array)
        else:
            scipy.io.savemat(f"{name}.mat", {name: array})
    done = solve(f"Phi{suffix}", f"Y{suffix}", "-o", f"X{suffix}", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["shape"] == [2, 3, 24]
    expected = ms.solvers.omp(Phi, Y, sparsity=2)
    if suffix == ".npy":
        coef = np.load("X.npy")
    else:
        written = np.load("X.npz") if suffix == ".npz" else scipy.io.loadmat("X.mat")
        coef = written["coef"]
        np.testing.assert_array_equal(written["support"].astype(bool), expected.support)
    np.testing.assert_allclose(coef, expected.coef, atol=1e-12)


def test_signs_and_groups_are_streamed(Phi):
    labels = np.arange(24) // 2
    Y = np.abs(np.random.default_rng(1).standard_normal((7, 2))) @ Phi.real[:, [8, 9]].T
    np.save("Phi", Phi.real)
    np.save("Y", Y)
    np.save("labels", labels)
    for given in ("labels.npy", ",".join(map(str, labels))):
        done = solve("Phi.npy", "Y.npy", "-o", "X.npz", "--positive", "--groups", given)
        assert done.exit_code == 0, done.output
        expected = ms.solvers.omp(Phi.real, Y, sparsity=2, positive=True, groups=labels).coef
        np.testing.assert_allclose(scipy.sparse.load_npz("X.npz").toarray(), expected, atol=1e-12)


def test_what_is_not_for_this(Phi):
    np.save("Phi", Phi)
    np.save("real", Phi.real)
    np.save("Y", np.ones((2, 3, 10)))
    np.save("half", np.full(24, 0.5))
    for arguments, message in (
        (("Phi.npy", "Y.npy", "-o", "X.csv"), "snapshots and complex numbers are written to .npy, .npz, .mat"),
        (("Phi.npy", "Y.npy", "-o", "X.npy", "--scheduler", "tcp://a:1"), "not for snapshots or complex data"),
        (("real.npy", "Y.npy", "-o", "X.npy", "--groups", "half.npy"), "must hold whole numbers, one per atom"),
        (("real.npy", "Y.npy", "-o", "X.npy", "--groups", "1,2"), "groups must be 24 labels, one per atom of Phi"),
    ):
        done = solve(*arguments)
        assert done.exit_code != 0
        said = " ".join("".join(" " if c in "│╭╰─╮╯" else c for c in f"{done.output} {done.exception}").split())
        assert message in said
    with pytest.raises(ValueError, match=r"of shape \(2, 3, 10\); real signals \(N, n\) are read a chunk at a time"):
        ms.streaming.solve(Phi.real, "Y.npy", "X.npz", method="omp", method_options={"sparsity": 1})


def recover(*arguments):
    return CliRunner().invoke(app, ["recover", *arguments])


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat"])
def test_recovered_complex_snapshots_from_file_to_file(Phi, suffix):
    Y = (np.arange(12).reshape(2, 3, 2) + 1j) @ Phi[:, [4, 9]].T
    np.save("Phi", Phi)
    np.save("Y", Y)
    done = recover("Phi.npy", "Y.npy", "-o", f"X{suffix}", "--json", "--noise", "0")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["certified"] == 2
    expected = ms.SparseRecoverer(Phi, noise=0).recover(Y)
    if suffix == ".npy":
        coef = np.load("X.npy")
    else:
        written = np.load("X.npz") if suffix == ".npz" else scipy.io.loadmat("X.mat")
        coef = written["coef"]
        np.testing.assert_array_equal(written["certified"].ravel().astype(bool), [True, True])
        np.testing.assert_allclose(written["inclusion"], expected.inclusion)
    np.testing.assert_allclose(coef, expected.coef, atol=1e-12)


def test_recovered_signs_and_groups_are_streamed(Phi):
    labels = np.arange(24) // 2
    Y = np.abs(np.random.default_rng(1).standard_normal((7, 2))) @ Phi.real[:, [8, 9]].T
    np.save("Phi", Phi.real)
    np.save("Y", Y)
    np.save("labels", labels)
    done = recover("Phi.npy", "Y.npy", "-o", "X.npz", "--positive", "--groups", "labels.npy", "--noise", "0.001")
    assert done.exit_code == 0, done.output
    expected = ms.SparseRecoverer(Phi.real, noise=0.001, positive=True, groups=labels).recover(Y)
    np.testing.assert_allclose(scipy.sparse.load_npz("X.npz").toarray(), expected.coef, atol=1e-12)
    np.testing.assert_allclose(np.load("X.npz")["confidence"], expected.confidence)
