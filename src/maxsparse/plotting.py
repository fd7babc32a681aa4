"""Figures: coefficients with their probabilities, phase curves, reliability diagrams.

Every function draws into `axes`, a new figure if None, and returns the axes; matplotlib is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["coefficients", "curve", "phase_curves", "reliability"]

MARKERS = "osv^D<>pP*X"
LEAST_SHOWN = 0.01  # probability of an atom outside the answer, below which it is not drawn
MOST_NAMES = 12  # atoms that are named on the axis


def coefficients(result: Any, i: int = 0, *, truth: ArrayLike | None = None, axes: Axes | None = None) -> Axes:
    """Draw the coefficients of one signal, with the probability of every atom and its rivals.

    Magnitudes are drawn where coefficients are complex or have several snapshots.

    Parameters
    ----------
    result : Result
        Of any method; probabilities and rivals are drawn if it has them.
    i : int, default=0
        Number of the signal.
    truth : array-like of shape (m,), (L, m) or None, default=None
        True coefficients of this signal.
    axes : matplotlib Axes or None, default=None

    Returns
    -------
    axes : matplotlib Axes

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 50, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 3, sparsity=3, noise=0.01, rng=1)
    >>> result = ms.SparseRecoverer(Phi, noise=0.01).recover(Y)
    >>> result.plot(1, truth=X[1]).get_ylabel()
    'coefficient'
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    i = _signal(i, len(result))
    x, support = _shown(result.coef[i]), np.flatnonzero(result.support[i])
    inclusion = getattr(result, "inclusion", None)
    axes = _axes(axes, (9.0, 3.6))
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    if truth is not None:
        _draw_truth(axes, truth, result.coef[i].shape)
    colours: Any = ["C0"] * support.size
    if inclusion is not None:
        scale, map_ = Normalize(0.0, 1.0), colormaps["viridis_r"]
        colours = map_(scale(inclusion[i, support]))
        mean = _shown(result.mean[i])
        rivals = np.flatnonzero((inclusion[i] > LEAST_SHOWN) & ~result.support[i])
        if rivals.size:
            # Posterior means of rivals are small because they are improbable: drawn given that the atom is in.
            given = mean[rivals] / inclusion[i, rivals]
            style = {"facecolors": "none", "edgecolors": map_(scale(inclusion[i, rivals])), "linewidths": 1.6}
            axes.scatter(rivals, given, s=45, marker="o", label="not in the answer, but possible", **style)
        bar = axes.figure.colorbar(ScalarMappable(scale, map_), ax=axes, pad=0.02)
        bar.set_label("probability of the atom")
    axes.vlines(support, 0.0, x[support], colors=colours, linewidth=2.2)
    axes.scatter(support, x[support], s=40, c=colours, edgecolors="black", linewidths=0.5, zorder=3, label="answer")
    _name_atoms(axes, result, support)
    axes.set(ylabel=_kind(result.coef[i]), xlim=(-1, x.size))
    axes.set_title(_headline(result, i, support.size), fontsize=10)
    axes.legend(fontsize=8, loc="best")
    return axes


def phase_curves(
    curves: Mapping[str, Sequence[ArrayLike]],
    *,
    axes: Axes | None = None,
    xlabel: str = "number of nonzeros",
    ylabel: str = "share recovered",
) -> Axes:
    """Draw how much is recovered against the difficulty, one curve per method.

    Parameters
    ----------
    curves : mapping of str to (x, share) or (x, share, spread)
        Label of every curve and its points; a spread, such as a standard deviation, is drawn as a band.
    axes : matplotlib Axes or None, default=None
    xlabel, ylabel : str

    Returns
    -------
    axes : matplotlib Axes

    Examples
    --------
    >>> import maxsparse as ms
    >>> axes = ms.plotting.phase_curves({"OMP": ([1, 2, 3], [1.0, 0.8, 0.4])})
    >>> [line.get_label() for line in axes.get_lines()]
    ['OMP']
    """
    axes = _axes(axes, (6.0, 4.0))
    for label, points in curves.items():
        if len(points) not in (2, 3):
            raise ValueError(f"curve {label!r} must be (x, share) or (x, share, spread), got {len(points)} parts")
        arrays = [np.asarray(part, dtype=float) for part in points]
        if any(part.shape != arrays[0].shape or part.ndim != 1 for part in arrays):
            raise ValueError(f"curve {label!r} has parts of shapes {', '.join(str(part.shape) for part in arrays)}")
        curve(axes, *arrays, label=label)
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return axes


def curve(
    axes: Axes, x: NDArray[Any], y: NDArray[Any], spread: NDArray[Any] | None = None, *, label: str, **style: Any
) -> None:
    """Draw one curve with a band of its spread; the marker is the next one that is free.

    Parameters
    ----------
    axes : matplotlib Axes
    x, y : ndarray of shape (K,)
    spread : ndarray of shape (K,) or None, default=None
    label : str
    **style
        Of the line.
    """
    marker = MARKERS[len(axes.get_lines()) % len(MARKERS)]
    style = {"marker": marker, "markersize": 4, "linewidth": 1.4, **style}
    (line,) = axes.plot(x, y, label=label, **style)
    if spread is not None and np.any(spread > 0):
        axes.fill_between(x, y - spread, y + spread, color=line.get_color(), alpha=0.15, linewidth=0)


def reliability(confidence: ArrayLike, right: ArrayLike, *, bins: int = 10, axes: Axes | None = None) -> Axes:
    """Draw how often answers of a stated confidence are right; on the diagonal, confidence is honest.

    Parameters
    ----------
    confidence : array-like of shape (N,)
        Such as ``result.confidence``.
    right : array-like of shape (N,), bool
        Whether each answer is right.
    bins : int, default=10
    axes : matplotlib Axes or None, default=None

    Returns
    -------
    axes : matplotlib Axes
        The title states the expected calibration error: the mean distance from the diagonal, weighted by the number
        of answers. Bars are Wilson's intervals of 95 %.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> axes = ms.plotting.reliability(p, rng.random(5000) < p)
    >>> axes.get_title()
    'expected calibration error 0.012, 5,000 answers'
    """
    p, hit = np.asarray(confidence, dtype=float), np.asarray(right)
    if p.ndim != 1 or hit.shape != p.shape or p.size == 0:
        raise ValueError(f"confidence and right must be 1-D, of one length, not empty; got {p.shape} and {hit.shape}")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"confidence must be from 0 to 1, got {p.min():g} to {p.max():g}")
    bins = check_integer(bins, "bins", low=1)
    place = np.minimum((p * bins).astype(int), bins - 1)
    counts = np.bincount(place, minlength=bins)
    filled = counts > 0
    stated = np.bincount(place, p, minlength=bins)[filled] / counts[filled]
    shares = np.bincount(place, hit.astype(bool), minlength=bins)[filled] / counts[filled]
    error = float(np.sum(counts[filled] * np.abs(stated - shares)) / p.size)
    low, high = _wilson(shares, counts[filled])
    axes = _axes(axes, (4.6, 4.4))
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="honest")
    bars = np.maximum([shares - low, high - shares], 0.0)
    axes.errorbar(stated, shares, yerr=bars, fmt="o", color="C0", capsize=3, label="measured")
    axes.bar((np.flatnonzero(filled) + 0.5) / bins, counts[filled] / p.size, 0.9 / bins, color="0.85", zorder=0)
    axes.set(xlabel="stated confidence (grey: share of answers)", ylabel="share that is right")
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title(f"expected calibration error {error:.2g}, {p.size:,} answers", fontsize=10)
    axes.legend(fontsize=9, loc="upper left")
    return axes


def _wilson(share: NDArray[Any], count: NDArray[Any], z: float = 1.96) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return Wilson's interval of a share out of `count`."""
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return middle - half, middle + half


def _axes(axes: Axes | None, size: tuple[float, float]) -> Axes:
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def _signal(i: int, N: int) -> int:
    if not -N <= i < N:
        raise IndexError(f"signal {i} is out of range: there are {N} signals")
    return i % N


def _shown(x: NDArray[Any]) -> NDArray[Any]:
    """Return coefficients (m,) as they are if they are real, else magnitudes over all snapshots."""
    if x.ndim == 2:
        return np.asarray(np.linalg.norm(x, axis=0))
    return np.abs(x) if np.iscomplexobj(x) else x


def _kind(x: NDArray[Any]) -> str:
    return "coefficient" if x.ndim == 1 and not np.iscomplexobj(x) else "magnitude"


def _draw_truth(axes: Axes, truth: ArrayLike, shape: tuple[int, ...]) -> None:
    true = np.asarray(truth)
    if true.shape != shape:
        raise ValueError(f"truth must be the coefficients of this one signal, shape {shape}, got {true.shape}")
    shown = _shown(true)
    used = np.flatnonzero(shown)
    axes.scatter(used, shown[used], s=110, marker="x", color="C3", linewidths=1.8, label="truth", zorder=2)


def _name_atoms(axes: Axes, result: Any, support: NDArray[Any]) -> None:
    """Label the axis: with the names of the atoms in use, where they have names and are not too many."""
    axes.set_xlabel("atom")
    if result.names is not None and 0 < support.size <= MOST_NAMES:
        axes.set_xticks(support, [result.names[j] for j in support], rotation=35, ha="right", fontsize=8)


def _headline(result: Any, i: int, size: int) -> str:
    parts = [f"signal {i}: {size} nonzeros", f"residual {result.residual[i]:.2g}"]
    if hasattr(result, "confidence"):
        parts.append("certified" if result.certified[i] else f"confidence {result.confidence[i]:.2f}")
    return ", ".join(parts)
