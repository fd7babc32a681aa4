"""``unmix``: which materials of a library are in a spectrum, how much of each, and how sure that is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from maxsparse._core.progress import track
from maxsparse._core.validation import check_flag, check_integer, check_number
from maxsparse.fields.spectra.answer import Unmixing
from maxsparse.fields.spectra.compare import compared, used_bands, warn_of_scales
from maxsparse.fields.spectra.inputs import as_spectra
from maxsparse.fields.spectra.noise import LearnedNoise, band_noise
from maxsparse.fields.spectra.nuisance import Nuisance, complement
from maxsparse.fields.spectra.table import Spectra
from maxsparse.recovery import CredibleSet, Recovery, SparseRecoverer

__all__ = ["unmix"]

EXACT = 100.0  # one over the standard deviation of the sum of abundances, where it is one
CLEAR = 0.5  # probability of the materials above which they are the answer, whatever else is possible
NOT_FAR = 0.05  # of the probability of the most probable set: less, and a set is no answer
LEVEL = 0.97  # of credible sets: a little is left for what chains over the supports miss
LEAST_NOISE = 1e-6  # relative to the spectra, for the weight of that sum where spectra are exact


def unmix(
    library: Spectra | ArrayLike | str | os.PathLike[str],
    spectra: Spectra | ArrayLike | str | os.PathLike[str],
    *,
    names: Iterable[Any] | None = None,
    noise: float | str | ArrayLike = "auto",
    bad_bands: ArrayLike | None = None,
    baseline: int = -1,
    gain: int = 0,
    shift: bool = False,
    sum_to_one: bool = False,
    budget: int | str = "thorough",
    progress: bool = False,
) -> Unmixing:
    """Find which materials of a library are in spectra, and how much of each.

    The answer is the most probable set of materials. Where no set has a probability of one half, it is the one of the
    more probable ones, and not larger, that is expected to have most in common with the true one.

    Parameters
    ----------
    library : Spectra, array-like of shape (m, n), table or path
        Spectra of pure materials as rows; a path is read by :func:`read_spectra`. A table (DataFrame) has one named
        column per spectrum and wavelengths as its index or as its column "wavelength"; or one row per spectrum, with
        its name in the index and wavelengths as columns.
    spectra : Spectra, array-like of shape (N, n) or (n,), table or path
        Measured mixtures, likewise. Where both have wavelengths, the library is resampled to those of the spectra.
    names : iterable of m str or None, default=None
        Names of the materials; None: those of `library`.
    noise : "auto", "bands", float or array-like of shape (n,), default="auto"
        Standard deviation of the noise, or that of every band. ``"auto"`` learns it from every spectrum; ``"bands"``
        learns that of every band from all spectra, at least 50, see :func:`band_noise`.
    bad_bands : array-like of shape (n,), bool, or of int, or None, default=None
        Bands to leave out, as a mask or as numbers. Bands with NaN anywhere are left out too.
    baseline : int, default=-1
        Degree of a polynomial baseline that may be added to every spectrum; −1: none.
    gain : int, default=0
        Degree of a polynomial of wavelength that may multiply every spectrum; 0: a constant, which abundances absorb.
    shift : bool, default=False
        Whether wavelengths may be shifted by a fraction of a band.
    sum_to_one : bool, default=False
        Whether abundances sum to one, up to a hundredth: the library covers all materials, and spectra and library have
        the same scale. More mixtures are resolved then.
    budget : int or str, default="thorough"
        Search effort, see :class:`maxsparse.SparseRecoverer`; "fast" for large images.
    progress : bool, default=False
        Show a progress bar on a terminal.

    Returns
    -------
    found : Unmixing

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> rng = np.random.default_rng(0)
    >>> bands, centers = np.linspace(0, 1, 60), rng.random((8, 4, 1))
    >>> pure = np.exp(-(((bands - centers) / 0.08) ** 2)).sum(axis=1)
    >>> library = ms.fields.spectra.Spectra(pure, bands, ["a", "b", "c", "d", "e", "f", "g", "h"])
    >>> mixture = 0.7 * pure[1] + 0.3 * pure[4] + 0.005 * rng.standard_normal(60)
    >>> found = ms.fields.spectra.unmix(library, mixture)
    >>> [(material.name, round(material.abundance, 1)) for material in found.materials()], found.verdict()
    ([('b', 0.7), ('e', 0.3)], 'fits')
    """
    pure, measured = compared(as_spectra(library, names), as_spectra(spectra))
    used = used_bands(pure, measured, bad_bands)
    baseline = check_integer(baseline, "baseline", low=-1)
    gain = check_integer(gain, "gain", low=0)
    if check_flag(sum_to_one, "sum_to_one") and gain > 0:
        raise ValueError(f"sum_to_one=True needs gain=0, got gain={gain}: a gain changes the sum of abundances")
    n = int(used.sum())
    if n < 3 + (baseline + 1) + gain + 2 * int(shift):
        raise ValueError(f"only {n} bands are left, too few to tell materials from nuisances")
    warn_of_scales(pure.values[:, used], measured.values[:, used])
    axis = np.arange(used.size, dtype=float) if measured.wavelength is None else measured.wavelength
    nuisance = Nuisance(axis[used], baseline, gain, bool(shift))
    level, weight = _noise(noise, measured.values[:, used], pure.values[:, used], used, nuisance)
    Phi = np.ascontiguousarray((pure.values[:, used] * weight).T)
    Y = measured.values[:, used] * weight
    empty = np.flatnonzero(~Phi.any(axis=0))
    if empty.size:
        raise ValueError(f"{pure.names[empty[0]]!r} is zero in all bands that are used; remove it from the library")
    solver = _Solver(Phi, level, budget, weight, nuisance, sum_to_one)
    return _collected(pure, measured, used, weight, solver, Y, progress)


class _Solver(NamedTuple):
    """Library and options: unmixes spectra whose nuisances are theirs alone, or common to all."""

    Phi: NDArray[np.float64]
    noise: Any
    budget: int | str
    weight: NDArray[np.float64]
    nuisance: Nuisance
    sum_to_one: bool

    def columns(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nuisance columns of a weighted spectrum."""
        return np.asarray(self.nuisance.columns(y / self.weight) * self.weight[:, None])

    def recover(self, Y: NDArray[np.float64]) -> _Recovered:
        """Return the answers of spectra with the same nuisances."""
        columns = self.columns(Y[0])
        Phi, Z = self.Phi, Y
        if columns.shape[1]:
            Q = complement(columns)
            Phi, Z = np.ascontiguousarray(Q @ Phi), Y @ Q.T
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*duplicate atoms")
            result = self._recover(Phi, Z)
            if self.sum_to_one:
                # One more measurement of the sum, a hundred times as exact as a band; its size follows from the noise.
                level = max(float(np.median(result.noise)), LEAST_NOISE * float(np.sqrt(np.mean(Z**2))))
                weight = EXACT * level
                Phi = np.vstack([Phi, np.full(Phi.shape[1], weight)])
                Z = np.hstack([Z, np.full((len(Z), 1), weight)])
                result = self._recover(Phi, Z)
        return _Recovered(result, columns, Phi, Z)

    def _recover(self, Phi: NDArray[np.float64], Z: NDArray[np.float64]) -> Recovery:
        return SparseRecoverer(Phi, positive=True, noise=self.noise, budget=self.budget).recover(Z)


class _Recovered(NamedTuple):
    """Answers, and the problem without nuisances that they are answers to."""

    result: Recovery
    columns: NDArray[np.float64]
    Phi: NDArray[np.float64]
    Z: NDArray[np.float64]

    def answer(self, k: int) -> tuple[NDArray[np.float64], float]:
        """Return abundances (m,) of the k-th spectrum, and how probable it is that these are exactly the materials."""
        coef, confidence = self.result.coef[k], float(self.result.confidence[k])
        if confidence >= CLEAR:
            return coef, confidence
        # Expected F1 of a set S with the true one: twice the materials in common over those of both.
        inclusion = self.result.inclusion[k]
        total = float(inclusion.sum())
        listed = self.result.alternatives(k)
        # No more materials than in the most probable set, or two that stand for each other would both be in.
        listed = [one for one in listed if one[1] >= NOT_FAR * listed[0][1] and len(one[0]) <= len(listed[0][0])]
        S, probability = max(listed, key=lambda one: inclusion[one[0]].sum() / max(len(one[0]) + total, 1e-300))
        if np.array_equal(S, np.flatnonzero(coef)) or not S.size:
            return coef, confidence
        fitted = np.zeros_like(coef)
        fitted[S] = nnls(self.Phi[:, S], self.Z[k])[0]
        return fitted, probability if (fitted[S] > 0).all() else 0.0


def _collected(
    pure: Spectra,
    measured: Spectra,
    used: NDArray[np.bool_],
    weight: NDArray[np.float64],
    solver: _Solver,
    Y: NDArray[np.float64],
    progress: bool,
) -> Unmixing:
    """Unmix all spectra and put the answers together."""
    N, m = len(Y), len(pure)
    abundance, error, probability, mean = np.zeros((4, N, m))
    confidence, noise, fit = np.zeros(N), np.zeros(N), np.full((N, used.size), np.nan)
    sets: list[tuple[CredibleSet, ...]] = []
    parts = [slice(i, i + 1) for i in range(N)] if solver.nuisance.alone else [slice(0, N)]
    for rows in track(parts, "unmix", progress):
        found = solver.recover(Y[rows])
        result, columns = found.result, found.columns
        for k, i in enumerate(range(*rows.indices(N))):
            abundance[i], confidence[i] = found.answer(k)
            support = np.flatnonzero(abundance[i])
            whole = np.column_stack([solver.Phi[:, support], columns])
            rest = Y[i] - solver.Phi[:, support] @ abundance[i, support]
            nuisance = np.linalg.lstsq(columns, rest, rcond=None)[0] if columns.shape[1] else np.empty(0)
            fit[i, used] = (Y[i] - rest + columns @ nuisance) / weight
            spread = np.diag(np.linalg.pinv(whole.T @ whole))[: support.size]
            mean[i], probability[i], noise[i] = result.mean[k], result.inclusion[k], result.noise[k]
            error[i, support] = noise[i] * np.sqrt(np.maximum(spread, 0.0))
            sets.append(tuple(result.credible_sets(k, LEVEL)))
    full = np.ones(used.size)
    full[used] = weight
    answers = abundance, error, mean, probability, confidence, fit, noise
    return Unmixing(pure, measured, used, *answers, tuple(sets), full, solver.nuisance.names)


def _noise(
    noise: Any, Y: NDArray[np.float64], pure: NDArray[np.float64], used: NDArray[np.bool_], nuisance: Nuisance
) -> tuple[Any, NDArray[np.float64]]:
    """Return the noise for the recoverer, and the weight (n,) of every band that makes it the same everywhere."""
    ones = np.ones(int(used.sum()))
    if isinstance(noise, str) and noise == "auto":
        return "auto", ones
    if isinstance(noise, str | LearnedNoise):
        if isinstance(noise, str) and noise != "bands":
            raise ValueError(f"noise must be 'auto', 'bands', a number or one per band, got {noise!r}")
        learned = band_noise(Y, nuisance.extended(pure)) if isinstance(noise, str) else noise.sigma[used]
        return "auto", np.exp(np.mean(np.log(learned))) / learned
    if np.ndim(noise) == 0:
        return check_number(noise, "noise", low=0.0), ones
    sigma = np.asarray(noise, dtype=np.float64)
    if sigma.shape != used.shape:
        raise ValueError(f"noise must have one number for each of {used.size} bands, got shape {sigma.shape}")
    if not (sigma[used] > 0).all():
        raise ValueError("the noise of every band must be a positive number")
    return 1.0, 1.0 / sigma[used]
