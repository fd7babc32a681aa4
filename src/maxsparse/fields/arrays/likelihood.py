r"""The evidence of sources at any directions, on no grid, and its maximum.

Sources are independent gaussian signals of unknown powers in white noise of unknown level, as in sparse Bayesian
learning: at frequency f, snapshots have the covariance

.. math:: \Sigma = B P B^H + \sigma^2 I, \qquad B = \mathrm{diag}(e^{c}) A(\theta)

with the steering vectors A and, where asked, log gains c of the sensors. Given the mean :math:`\hat R` of
:math:`y y^H` over L snapshots, minus the log likelihood is
:math:`L (\log\det\Sigma + \mathrm{tr}\,\Sigma^{-1}\hat R)`. Fisher scoring finds its minimum; the Fisher information at
the minimum gives standard errors and, by Laplace's approximation, the evidence of the number of sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse.fields.arrays.geometry import Array

__all__ = ["Data", "Fit", "addition", "cost_at", "fit", "log_prior", "steering", "with_volume"]

MOST_STEPS = 60
TOLERANCE = 1e-5  # of minus the log likelihood, at which scoring ends
LARGEST_STEP = 2.0  # of a log power
LEAST_GAIN = 0.1  # of the log likelihood, by every source
POWER_RANGE = np.log(1e8)  # width of the prior of the log power of a source
LEAST_NOISE, LEAST_POWER = 1e-11, 1e-8  # shares of the received power


class Data(NamedTuple):
    """What the snapshots say, and what was asked."""

    array: Array
    R: NDArray[np.complex128]  # (F, n, n), mean of y yᴴ
    snapshots: int
    frequencies: tuple[float | None, ...]
    two: bool  # whether elevations are unknown too
    field: float  # width of the field of view in radians, with elevations its area
    low: NDArray[np.float64]  # (d,), degrees: where sources are looked for
    high: NDArray[np.float64]
    view: tuple[NDArray[np.float64], NDArray[np.float64]]  # lowest and highest direction that was asked for
    calibration: float  # standard deviation of the log gains
    noise: float | None  # σ² where it is known
    blur: float = 0.0  # least noise, as a share of the received power: what the model cannot explain
    volume: float = 1.0  # integral of what the array can tell apart over the field of view

    @property
    def beam(self) -> float:
        """Width of a beam in degrees: the length of a step in direction that is not small."""
        waves = max(np.ptp(self.array.waves(f), axis=0).max() for f in self.frequencies)
        return float(np.degrees(1.0 / max(waves, 0.5)))

    @property
    def limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lowest and highest direction, (d,) each, in degrees; none for an azimuth that goes all around."""
        around = np.zeros(len(self.low), dtype=bool)
        around[0] = self.high[0] - self.low[0] >= 360.0
        return np.where(around, -np.inf, self.low), np.where(around, np.inf, self.high)

    @property
    def power(self) -> NDArray[np.float64]:
        """Mean power at a sensor, (F,)."""
        return np.asarray(np.trace(self.R, axis1=1, axis2=2).real / self.R.shape[1])


@dataclass(frozen=True, eq=False)
class Fit:
    """Sources at a maximum of the likelihood."""

    directions: NDArray[np.float64]  # (K, d), degrees
    powers: NDArray[np.float64]  # (F, K)
    noise: NDArray[np.float64]  # (F,), σ²
    gains: NDArray[np.complex128]  # (n,), logs
    cost: float  # minus the log likelihood, and minus the log prior of the gains
    evidence: float  # log
    errors: NDArray[np.float64]  # (K, d), degrees

    @property
    def size(self) -> int:
        """Number of sources."""
        return len(self.directions)


def fit(data: Data, directions: NDArray[np.float64], powers: NDArray[np.float64], noise: NDArray[np.float64]) -> Fit:
    """Move sources from directions (K, d) with powers (F, K) in noise (F,) to the next maximum of the likelihood."""
    K, d = directions.shape
    F, n, _ = data.R.shape
    free = data.noise is None
    least = LEAST_NOISE * data.power
    # Not below LEAST_POWER, even to start: rounding errors of snapshots without noise would be a source.
    start = np.maximum(powers, LEAST_POWER * data.power[:, None])
    x = _packed(np.radians(directions), np.log(start), np.log(noise), np.zeros(2 * n))
    bounds = _step_bounds(data, K, F, d)
    used = np.ones(x.size, dtype=bool)
    used[K * d + F * K : K * d + F * K + F] = free
    used[K * d + F * K + F :] = data.calibration > 0
    floor = np.log(np.maximum(least, data.blur * data.power))
    cost, slope, information = _terms(data, x, K)
    damping = 1e-3
    for _ in range(MOST_STEPS):
        H = information[np.ix_(used, used)]
        scale = np.diag(H) + 1e-9 * np.diag(H).max(initial=1.0)  # nothing is unknown without sources in known noise
        step = np.zeros(x.size)
        step[used] = -np.linalg.solve(H + damping * np.diag(scale), slope[used])
        trial = _inside(data, x + np.clip(step, -bounds, bounds), K, d, least, floor)
        new = _terms(data, trial, K)
        if new[0] <= cost + 1e-12 * abs(cost):
            gain = cost - new[0]
            x, (cost, slope, information) = trial, new
            damping = max(damping / 5, 1e-9)
            if gain < TOLERANCE:
                break
        else:
            damping = min(10 * damping, 1e12)
            if damping >= 1e10:
                break
    return _fitted(data, x, K, d, cost, information, used)


def cost_at(data: Data, found: Fit, directions: NDArray[np.float64]) -> float:
    """Return minus the log likelihood of the sources of `found` at other directions (K, d), all else unchanged."""
    gains = np.concatenate([found.gains.real, found.gains.imag])
    x = _packed(np.radians(directions), np.log(found.powers), np.log(found.noise), gains)
    return _terms(data, x, len(directions))[0]


def addition(data: Data, found: Fit, grid: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return by how much one more source, at every direction of a grid, would raise the log likelihood; and its powers.

    Parameters
    ----------
    data : Data
    found : Fit
    grid : ndarray of shape (m, d), degrees

    Returns
    -------
    gain : ndarray of shape (m,)
    powers : ndarray of shape (F, m)
    """
    gain, powers = np.zeros(len(grid)), np.zeros((len(data.R), len(grid)))
    for f, frequency in enumerate(data.frequencies):
        A = steering(data, found.directions, frequency)[0] * np.exp(found.gains)[:, None]
        a = steering(data, grid, frequency)[0] * np.exp(found.gains)[:, None]
        inverse = np.linalg.inv((A * found.powers[f]) @ A.conj().T + found.noise[f] * np.eye(len(A)))
        s = np.einsum("nm,nm->m", a.conj(), inverse @ a).real
        q = np.einsum("nm,nm->m", a.conj(), (inverse @ data.R[f] @ inverse) @ a).real
        ratio = np.maximum(q / s, 1.0)
        gain += data.snapshots * (ratio - 1 - np.log(ratio))
        powers[f] = (ratio - 1) / s
    return gain, powers


def log_prior(data: Data, directions: NDArray[np.float64]) -> float:
    """Return the log of the prior density of directions (K, d): uniform in what the array can tell apart.

    For sensors in a row that is the sine of the azimuth: near ±90° directions all look the same, and a source there
    must not gain from being everywhere.
    """
    return float(np.log(np.maximum(_told_apart(data, directions) / data.volume, 1e-12)).sum())


def with_volume(data: Data) -> Data:
    """Return the data with the integral that makes :func:`log_prior` a density."""
    lattice = [np.linspace(a, b, 60) for a, b in zip(data.low, data.high, strict=True)]
    whole = np.stack(np.meshgrid(*lattice, indexing="ij"), axis=-1).reshape(-1, len(lattice))
    return data._replace(volume=float(np.mean(_told_apart(data, whole)) * data.field))


def _told_apart(data: Data, directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return √det JᵀCJ, with the covariance C of the sensors' positions and the Jacobian J of u(azimuth, elevation)."""
    a = np.radians(directions[:, 0])
    e = np.radians(directions[:, 1]) if data.two else np.zeros(len(a))
    J = np.array([[np.cos(a) * np.cos(e), -np.sin(a) * np.cos(e), 0 * a]])
    if data.two:
        J = np.concatenate([J, [[-np.sin(a) * np.sin(e), -np.cos(a) * np.sin(e), np.cos(e)]]])
    C = np.cov(data.array.positions.T)
    return np.asarray(np.sqrt(np.maximum(np.linalg.det(np.einsum("iak,ab,jbk->kij", J, C, J)), 0.0)))


def _packed(angles: Any, log_powers: Any, log_noise: Any, gains: Any) -> NDArray[np.float64]:
    return np.concatenate([angles.ravel(), log_powers.ravel(), log_noise, gains])


def _step_bounds(data: Data, K: int, F: int, d: int) -> NDArray[np.float64]:
    """Return the largest step of every unknown."""
    angle = np.full(K * d, np.radians(data.beam) / 4)
    rest = np.full(F * K + F, LARGEST_STEP)
    return np.concatenate([angle, rest, np.full(2 * data.R.shape[1], 0.3)])


def _inside(data: Data, x: NDArray[Any], K: int, d: int, least: NDArray[Any], floor: NDArray[Any]) -> NDArray[Any]:
    """Keep directions in the field of view, powers above rounding, the noise above what no model explains."""
    x, F = x.copy(), len(least)
    angles = x[: K * d].reshape(K, d)
    np.clip(angles, *(np.radians(limit) for limit in data.limits), out=angles)
    powers = x[K * d : K * d + F * K].reshape(F, K)
    np.maximum(powers, np.log(least * LEAST_POWER / LEAST_NOISE)[:, None], out=powers)
    noise = x[K * d + F * K : K * d + F * K + F]
    np.maximum(noise, floor, out=noise)
    return x


def steering(data: Data, directions: NDArray[Any], frequency: float | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return steering vectors (n, K) of directions (K, d), and their derivatives (2, n, K)."""
    elevation = directions[:, 1] if data.two else np.zeros(len(directions))
    return data.array.steering_with_slopes(directions[:, 0], elevation, frequency=frequency)


def _terms(data: Data, x: NDArray[Any], K: int) -> tuple[float, NDArray[Any], NDArray[Any]]:
    """Return minus the log likelihood, its slope and the Fisher information.

    The derivative of Σ by every unknown but σ² is u vᴴ + v uᴴ with a pair of vectors, columns of U and V.
    """
    F, n, _ = data.R.shape
    d, L = 2 if data.two else 1, data.snapshots
    directions = np.degrees(x[: K * d].reshape(K, d))
    gains = np.exp(x[-2 * n : -n] + 1j * x[-n:])[:, None]
    cost, slope, information = 0.0, np.zeros(x.size), np.zeros((x.size, x.size))
    for f, frequency in enumerate(data.frequencies):
        A, slopes = steering(data, directions, frequency)
        B, dB = gains * A, gains * slopes[:d]
        own = K * d + f * K
        p, noise = np.exp(x[own : own + K]), np.exp(x[K * d + F * K + f])
        signal = (B * p) @ B.conj().T
        S = signal + noise * np.eye(n)
        inverse = np.linalg.inv(S)
        cost += L * (np.linalg.slogdet(S)[1] + np.vdot(inverse, data.R[f]).real)
        U = [(dB * p).transpose(1, 2, 0).reshape(n, K * d), B * (p / 2)]
        V = [np.repeat(B, d, axis=1), B]
        places = [np.arange(K * d), np.arange(own, own + K)]
        if data.calibration > 0:
            U += [np.eye(n), 1j * np.eye(n)]
            V += [signal, signal]
            places.append(np.arange(x.size - 2 * n, x.size))
        u, v, where = np.concatenate(U, axis=1), np.concatenate(V, axis=1), np.concatenate(places)
        iu, iv = inverse @ u, inverse @ v
        vu = v.conj().T @ iu
        pairs = 2 * (vu * vu.T + (v.conj().T @ iv) * (u.conj().T @ iu).T).real
        information[np.ix_(where, where)] += L * pairs
        level = K * d + F * K + f
        cross = 2 * L * noise * np.einsum("ni,ni->i", iv.conj(), iu).real
        information[where, level] += cross
        information[level, where] += cross
        information[level, level] += L * noise**2 * np.vdot(inverse, inverse).real
        outside = inverse @ data.R[f] @ inverse
        slope[where] += (
            2 * L * (np.einsum("ni,ni->i", v.conj(), iu) - np.einsum("ni,ni->i", v.conj(), outside @ u)).real
        )
        slope[level] += L * noise * (np.trace(inverse) - np.trace(outside)).real
    if data.calibration > 0:
        c, where = x[-2 * n :], np.arange(x.size - 2 * n, x.size)
        cost += float(c @ c) / (2 * data.calibration**2)
        slope[where] += c / data.calibration**2
        information[where, where] += data.calibration**-2
    return cost, slope, information


def _fitted(
    data: Data, x: NDArray[Any], K: int, d: int, cost: float, information: NDArray[Any], used: NDArray[np.bool_]
) -> Fit:
    """Return the sources with standard errors, and their evidence by Laplace's approximation."""
    F, n, _ = data.R.shape
    H = information[np.ix_(used, used)].copy()
    # A flat direction of the likelihood is as wide as the prior, not infinite: √(2π/H) is its width.
    prior = np.full(x.size, 2 * np.pi * POWER_RANGE**-2)
    prior[: K * d] = 2 * np.pi * data.field ** (-2 / d)
    H[np.diag_indices(len(H))] += prior[used]
    spread = np.linalg.inv(H)
    own = K * d + F * K  # unknowns that a model with fewer sources does not have
    rest = np.flatnonzero(np.flatnonzero(used) >= own)
    occam = 0.5 * (own * np.log(2 * np.pi) - np.linalg.slogdet(H)[1])
    if rest.size:  # common to all models, up to the curvature that they leave
        occam += 0.5 * np.log(np.diag(H)[rest]).sum()
    evidence = -cost + occam + log_prior(data, np.degrees(x[: K * d].reshape(K, d))) - F * K * np.log(POWER_RANGE)
    if _empty(data, x, K, d):
        evidence = -np.inf
    errors = np.degrees(np.sqrt(np.maximum(np.diag(spread)[: K * d], 0.0))).reshape(K, d)
    return Fit(
        np.degrees(x[: K * d].reshape(K, d)),
        np.exp(x[K * d : own].reshape(F, K)),
        np.exp(x[own : own + F]),
        x[-2 * n : -n] + 1j * x[-n:],
        cost,
        float(evidence),
        errors,
    )


def _empty(data: Data, x: NDArray[Any], K: int, d: int) -> bool:
    """Whether a source is so weak that the likelihood is the same without it: nothing speaks for its existence."""
    F, n, _ = data.R.shape
    powers, noise = np.exp(x[K * d : K * d + F * K].reshape(F, K)), np.exp(x[K * d + F * K : K * d + F * K + F])
    gain = data.snapshots / 2 * np.sum((n * powers / noise[:, None]) ** 2, axis=0)
    return bool((gain < LEAST_GAIN).any())
