"""Multigrid against a direct factorisation, on pictures that make it hard."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

from maxsparse.stereo import integrate, multigrid


def laplacian(mask, rng, spread):
    """The equations of a masked grid, weights spread over `spread` decades, one pixel of every part held."""
    from scipy import ndimage

    number = np.cumsum(mask.ravel()).reshape(mask.shape) - 1
    across, down = mask[:, :-1] & mask[:, 1:], mask[:-1] & mask[1:]
    a = np.concatenate([number[:, :-1][across], number[:-1][down]])
    b = np.concatenate([number[:, 1:][across], number[1:][down]])
    w = 10.0 ** rng.uniform(-spread, 0, len(a))
    P = int(mask.sum())
    W = sparse.coo_matrix((w, (a, b)), shape=(P, P))
    W = (W + W.T).tocsr()
    _, held = np.unique(ndimage.label(mask)[0][mask], return_index=True)
    anchors = np.bincount(held, minlength=P).astype(float)
    return (sparse.diags(np.asarray(W.sum(axis=1)).ravel() + anchors) - W).tocsr()


@pytest.mark.parametrize(("share", "spread"), [(1.0, 0), (1.0, 3), (0.7, 0), (0.55, 2)])
def test_same_as_a_direct_solution(share, spread):
    rng = np.random.default_rng(0)
    A = laplacian(rng.random((60, 70)) < share, rng, spread)
    truth = rng.standard_normal(A.shape[0])
    z = multigrid.solve(A, A @ truth)
    assert np.linalg.norm(A @ (z - truth)) <= 1e-9 * np.linalg.norm(A @ truth)
    direct = spsolve(A.tocsc(), A @ truth)
    assert np.abs(z - direct).max() < 1e-5 * np.abs(direct).max()


def test_iterations_do_not_grow_with_the_picture(monkeypatch):
    rng, counts = np.random.default_rng(1), []
    cycle = multigrid._cycle
    monkeypatch.setattr(multigrid, "_cycle", lambda levels, k, right: counts.append(k) or cycle(levels, k, right))
    for side in (40, 160):
        counts.append("next")
        A = laplacian(np.ones((side, side), dtype=bool), rng, 0)
        multigrid.solve(A, A @ rng.standard_normal(side**2))
    small, large = " ".join(map(str, counts)).split("next")[1:]
    assert large.split().count("0") <= 1.5 * small.split().count("0")


def test_nothing_to_solve_and_single_pixels():
    assert not multigrid.solve(sparse.identity(5, format="csr"), np.zeros(5)).any()
    alone = sparse.identity(1000, format="csr")  # more than are solved directly, and no neighbours
    assert np.allclose(multigrid.solve(alone, np.arange(1000.0)), np.arange(1000.0))


def test_depth_is_the_same_with_and_without(monkeypatch):
    import sys

    y, x = np.mgrid[-1:1:150j, -1:1:150j]
    mask = x**2 + y**2 < 0.9
    normals = np.where(mask[..., None], np.dstack([x, -y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))]), 0)
    module = sys.modules["maxsparse.stereo.integrate"]
    found = []
    for limit in (0, 10**9):
        monkeypatch.setattr(module, "DIRECT", limit)
        found.append(integrate(normals, mask, discontinuities=2)[mask])
    assert np.abs(found[0] - found[1]).max() < 1e-6 * np.ptp(found[1])
