r"""Positions between the places of a source space: lead fields are smooth in space, so that neighbours tell them.

Around a place b, the field of a source with moment q at :math:`r_b + d` is :math:`(L_b + \sum_k \phi_k(d) C_k)\,q`,
with monomials :math:`\phi_k` up to the second degree and matrices C_k fitted to the lead fields of its neighbours.
Gauss and Newton's steps find the offsets d of all sources together, moments being fitted at every step.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.brain.locate import Located
from maxsparse.fields.brain.prepare import Head

__all__ = ["refined"]

NEAREST = 26  # neighbours of a place on a regular grid
STEPS, SMALL = 8, 0.01  # of Gauss and Newton, and the step, relative to the distance of places, that ends them
FLAT = 0.05  # of the largest singular value: neighbours in a plane do not tell what is out of it
SILENT = 1e-3
DAMPING = 1e-3
SPREAD = 0.35  # standard deviation of offsets, in units of the distance of places: a source is half the way at most
FARTHEST = 0.8
HOPELESS = -1.0  # log evidence expected from a first step that ends the search


class _Local:
    """Lead fields around one place."""

    def __init__(self, head: Head, positions: NDArray[np.float64], b: int) -> None:
        offsets = positions - positions[b]
        lengths = np.sum(offsets**2, axis=1)
        order = np.argpartition(lengths, NEAREST)[: NEAREST + 1]
        order = order[np.argsort(lengths[order], kind="stable")]  # b is the first
        self.scale = math.sqrt(float(np.median(lengths[order[1:7]])))  # distance of places
        fields = _fields(head, order)
        near = offsets[order[1:]] / self.scale
        weight = np.exp(-0.25 * np.sum(near**2, axis=1))[:, None]
        basis = np.linalg.pinv(weight * _monomials(near), rcond=FLAT)
        change = (fields[1:] - fields[0]).reshape(NEAREST, -1)
        self.own, self.slopes = fields[0], (basis @ (weight * change)).reshape(-1, *fields[0].shape)  # (9, n, 3)

    def field(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lead field (n, 3) at an offset (3,), in units of `scale`."""
        return np.asarray(self.own + np.tensordot(_monomials(d[None])[0], self.slopes, 1))

    def derivatives(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return its derivatives, (3, n, 3)."""
        x, y, z = d
        rows = [[1, 0, 0, 2 * x, 0, 0, y, z, 0], [0, 1, 0, 0, 2 * y, 0, x, 0, z], [0, 0, 1, 0, 0, 2 * z, 0, x, y]]
        return np.tensordot(np.array(rows, dtype=float), self.slopes, 1)


def _monomials(d: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = d.T
    return np.stack([x, y, z, x * x, y * y, z * z, x * y, x * z, y * z], axis=1)


def refined(M: NDArray[np.float64], head: Head, found: Located) -> NDArray[np.float64]:
    """Return positions (K, 3) of the active places, moved to where the sources are.

    Orientations must be free. Sources stay at their places where measurements M (n, T) do not tell that they are
    elsewhere.
    """
    positions = np.asarray(head.forward["source_rr"], dtype=float)
    places, own = found.places, positions[found.places]
    if not len(places) or head.gain.o != 3 or head.gain.B <= NEAREST or not found.noise > 0:
        return own
    around = [_Local(head, positions, int(b)) for b in places]
    A = np.concatenate([local.own for local in around], axis=1)
    _, sizes, courses = np.linalg.svd(_fit(A, M), full_matrices=False)
    D = M @ courses[sizes > SILENT * sizes[0]].T  # the time courses that sources have
    offsets, evidence = _offsets(around, D / found.noise)
    return own if evidence <= 0.0 else own + offsets * np.array([[local.scale] for local in around])


def _fields(head: Head, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return lead fields of places along x, y and z of the head, without weighting, (places, n, 3)."""
    columns = 3 * places[:, None] + np.arange(3)
    axes = np.asarray(head.forward["source_nn"])[columns]  # (places, 3, 3)
    parts = head.gain.G[:, columns] / np.maximum(head.weighting[columns], 1e-300)  # (n, places, 3)
    return np.asarray(parts.transpose(1, 0, 2) @ axes)


def _fit(A: NDArray[np.float64], D: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.lstsq(A, D, rcond=SILENT)[0])


def _offsets(around: list[_Local], D: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the most probable offsets (K, 3), and the log evidence for offsets at all, by Laplace's method."""
    K = len(around)
    d, damping = np.zeros((K, 3)), DAMPING
    X, left = _explained(around, d, D)
    first = best = float(np.sum(left**2))
    J = _slopes(around, d, X)
    if _expected(J, left) < HOPELESS:
        return d, HOPELESS
    for _ in range(STEPS):
        H = J @ J.T
        H[np.diag_indices(3 * K)] *= 1.0 + damping
        H[np.diag_indices(3 * K)] += SPREAD**-2
        new = d + np.linalg.solve(H, J @ left.ravel() - d.ravel() / SPREAD**2).reshape(K, 3)
        new *= np.minimum(1.0, FARTHEST / np.maximum(np.linalg.norm(new, axis=1, keepdims=True), FARTHEST))
        other, rest = _explained(around, new, D)
        value = float(np.sum(rest**2) + np.sum(new**2) / SPREAD**2)
        if value >= best:
            damping *= 30.0
            continue
        step = float(np.abs(new - d).max())
        d, X, left, best, damping = new, other, rest, value, damping / 3.0
        J = _slopes(around, d, X)
        if step < SMALL:
            break
    return d, 0.5 * (first - best - _choice(J))


def _choice(J: NDArray[np.float64]) -> float:
    """Return twice what offsets that may be anything cost, by the width of their posterior."""
    return float(np.linalg.slogdet(np.eye(len(J)) + SPREAD**2 * J @ J.T)[1])


def _expected(J: NDArray[np.float64], left: NDArray[np.float64]) -> float:
    """Return the evidence for offsets that one step without curvature expects."""
    c = J @ left.ravel()
    return 0.5 * (float(c @ np.linalg.solve(J @ J.T + np.eye(len(J)) / SPREAD**2, c)) - _choice(J))


def _slopes(around: list[_Local], d: NDArray[np.float64], X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return derivatives (3K, n·r) of what sources explain by their offsets, moments following."""
    A = np.concatenate([local.field(own) for local, own in zip(around, d, strict=True)], axis=1)
    Q = np.linalg.qr(A)[0]
    parts = zip(around, d, X.reshape(len(around), 3, -1), strict=True)
    J = np.concatenate([local.derivatives(own) @ moments for local, own, moments in parts])
    return np.asarray(J - Q @ (Q.T @ J)).reshape(len(J), -1)


def _explained(
    around: list[_Local], d: NDArray[np.float64], D: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the moments of sources at these offsets, and what they leave of D."""
    A = np.concatenate([local.field(own) for local, own in zip(around, d, strict=True)], axis=1)
    X = _fit(A, D)
    return X, D - A @ X
