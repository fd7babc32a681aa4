"""``estimate_directions``: how many sources there are, where they are, and how sure that is."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_integer
from maxsparse.fields.arrays.ambiguity import Lookalike, in_view, inside, lookalikes
from maxsparse.fields.arrays.answer import Directions
from maxsparse.fields.arrays.geometry import Array
from maxsparse.fields.arrays.inputs import checked
from maxsparse.fields.arrays.likelihood import Data, Fit
from maxsparse.fields.arrays.refine import refine
from maxsparse.fields.arrays.saturation import explained
from maxsparse.fields.arrays.search import distances, grid_of, mesh, search

__all__ = ["estimate_directions"]

MOST_SOURCES = 12
UNEXPLAINED = 1e-4  # probability of snapshots below which no number of sources explains them
CONTRADICTED = 0.05  # probability of a given number of sources below which it is worth a warning
WRONG_UNIT = 5.0  # wavelengths between neighbours, from which positions are hardly in the right unit
SHOWN_PER_BEAM = 20  # directions of the picture


def estimate_directions(
    Y: ArrayLike,
    array: Array,
    *,
    sources: int | None = None,
    noise: float | None = None,
    frequencies: ArrayLike | None = None,
    azimuth: tuple[float, float] | None = None,
    elevation: tuple[float, float] | None = None,
    calibration: float = 0.0,
    window: float | None = None,
) -> Directions:
    """Find the directions of the sources that an array hears, and their number.

    Sources are placed one at a time where they raise the evidence of the snapshots most; all of them then move together
    to its next maximum, on no grid. One may also become two, and one of them may go. The number of sources with the
    most evidence is the answer.

    Parameters
    ----------
    Y : array-like of shape (L, n), or (F, L, n) with `frequencies`, complex
        L snapshots of n sensors. The snapshots of one frequency share their directions with those of the others, not
        their powers.
    array : Array
    sources : int or None, default=None
        Number of sources in the field of view, where it is known. `confidence` is what the snapshots say of it.
    noise : float or None, default=None
        Standard deviation of the noise at a sensor; None: it is learned.
    frequencies : array-like of shape (F,) or None, default=None
        In hertz, for an array in metres.
    azimuth : (float, float) or None, default=None
        Field of view in degrees; None: ±90 for sensors on the x axis, else ±180. Sources outside are found too, so that
        they disturb no others, but only counted.
    elevation : (float, float) or None, default=None
        Field of view in degrees; None: all sources are at elevation 0, and only azimuths are looked for.
    calibration : float, default=0.0
        Standard deviation of the relative errors of the sensors' gains, and of their phases in radians, where they are
        not calibrated well: they are learned too, and standard errors allow for them.
    window : float or None, default=None
        Length in seconds of the pieces whose Fourier transforms `Y` holds. Short pieces hear a band of frequencies, in
        which a source is no plane wave: what looks like a second source much weaker than the first is then taken for
        noise, see :meth:`Array.blur`.

    Returns
    -------
    found : Directions

    Warns
    -----
    UserWarning
        If there may be as many sources as sensors or more, if `sources` contradicts the snapshots, or if sensors are so
        far apart that directions look the same.

    See Also
    --------
    cramer_rao : The smallest standard errors that are possible.
    music, capon, esprit : Classical methods.

    References
    ----------
    D. P. Wipf, B. D. Rao, "An empirical Bayesian strategy for solving the simultaneous sparse approximation problem",
    IEEE Trans. Signal Processing 55(7), 2007: the evidence. M. E. Tipping, A. C. Faul, "Fast marginal likelihood
    maximisation for sparse Bayesian models", AISTATS 2003: by how much one more source raises it.

    Examples
    --------
    >>> import maxsparse as ms
    >>> array = ms.fields.arrays.linear(12)
    >>> Y = ms.fields.arrays.simulate(array, [-20.0, 10.0, 15.0], snapshots=30, snr_db=20, rng=0)
    >>> found = ms.fields.arrays.estimate_directions(Y, array)
    >>> sorted(found.azimuth.round().tolist())
    [-20.0, 10.0, 15.0]
    """
    data = checked(Y, array, noise, frequencies, azimuth, elevation, calibration, window)
    n, L = data.R.shape[1], data.snapshots
    # n snapshots or more tell up to n − 1 sources apart; one snapshot, half of them.
    most = n - 1 if n <= L else min(n - 1, (n * L) // (L + 1))
    wanted = None if sources is None else check_integer(sources, "sources", low=0)
    if wanted is not None and wanted > most:
        raise ValueError(f"{n} sensors and {L} snapshots can tell at most {most} sources apart, got sources={wanted}")
    path = _path(data, most, wanted or 0)
    inner = np.array([int(inside(data, model).sum()) for model in path])
    weights = _weights(data, path, wanted)
    best = int(np.argmax(weights))
    if wanted is not None:
        best = min(range(len(path)), key=lambda K: (abs(inner[K] - wanted), -path[K].evidence))
    number_probability: NDArray[np.float64] = np.bincount(inner, weights).astype(np.float64)
    _warn_of_number(number_probability, wanted)
    return _answer(data, path, best, weights, number_probability)


def _path(data: Data, most: int, wanted: int) -> list[Fit]:
    """Return the sources for every number of them, moved into the field of view where it looks the same."""
    grid, enough = grid_of(data), min(most, max(MOST_SOURCES, wanted))
    path = search(data, grid, enough, least=wanted)
    best = max(path, key=lambda model: model.evidence)
    beyond = int((~inside(data, in_view(data, best))).sum())  # these come on top of a number that is given
    unexplained = explained(data, best) < UNEXPLAINED
    if len(path) <= enough and (unexplained or (wanted and beyond and len(path) <= wanted + beyond)):
        path = search(data, grid, enough, least=enough if unexplained else min(enough, wanted + beyond))
    return [in_view(data, model) for model in path]


def _weights(data: Data, path: list[Fit], wanted: int | None) -> NDArray[np.float64]:
    """Return the probability of every number of sources; what is left to 1 is that of more than the array can tell."""
    n = data.R.shape[1]
    evidence = np.array([model.evidence for model in path])
    weights: NDArray[np.float64] = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    fits = max(explained(data, model) for model in path)
    if fits < UNEXPLAINED:
        warnings.warn(
            f"the array is saturated: no number of sources below the {n} of its sensors explains the snapshots. There "
            "are more sources, or sensors are not where the array says, or not calibrated (give calibration=)",
            UserWarning,
            stacklevel=3,
        )
        weights *= fits
    elif wanted is None and int(np.argmax(weights)) == n - 1:
        warnings.warn(
            f"the array is saturated: {n} sensors can tell at most {n - 1} sources apart, and so many were found. If "
            "there are more, the directions are wrong",
            UserWarning,
            stacklevel=3,
        )
        weights /= 2
    return weights


def _warn_of_number(probability: NDArray[np.float64], wanted: int | None) -> None:
    if wanted is None or (wanted < len(probability) and probability[wanted] >= CONTRADICTED * probability.sum()):
        return
    own = probability[wanted] if wanted < len(probability) else 0.0
    likely = int(np.argmax(probability))
    warnings.warn(
        f"the snapshots contradict sources={wanted}, which has probability {own:.2g}: {likely} is the most probable "
        "number",
        UserWarning,
        stacklevel=3,
    )


def _answer(
    data: Data, path: list[Fit], best: int, weights: NDArray[np.float64], number_probability: NDArray[np.float64]
) -> Directions:
    """Return the sources of the chosen number in the field of view, strongest first."""
    found = path[best]
    seen = inside(data, found)
    order = np.argsort(-found.powers.sum(axis=0), kind="stable")
    order = order[seen[order]]
    directions, errors = (part[order] for part in refine(data, found))
    others = [lookalikes(data, found, int(k)) for k in order]
    ambiguous = [
        [_placed(data, other.fit.directions[k]) for other in own] for k, own in zip(order, others, strict=True)
    ]
    _warn_of_spacing(data, ambiguous)
    directions = np.array([_placed(data, direction) for direction in directions]).reshape(directions.shape)
    zeros, one = np.zeros(len(order)), not data.two
    shown = mesh(data, *data.view, SHOWN_PER_BEAM)
    return Directions(
        azimuth=directions[:, 0],
        elevation=zeros if one else directions[:, 1],
        azimuth_error=errors[:, 0],
        elevation_error=zeros if one else errors[:, 1],
        powers=found.powers.sum(axis=0)[order],
        probability=_probability(data, path, weights, directions, errors, ambiguous) * _shares(others),
        confidence=float(number_probability[len(order)]),
        number_probability=number_probability,
        noise=float(np.sqrt(np.mean(found.noise))),
        gains=np.exp(found.gains),
        ambiguous=[[(float(place[0]), 0.0 if one else float(place[1])) for place in own] for own in ambiguous],
        outside=int((~seen).sum()),
        grid=shown,
        spectrum=_beamformer(data, shown),
    )


def _placed(data: Data, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the direction with its azimuth turned into the field of view, and moved to its edge if just outside."""
    low, high = data.view
    turned = direction.copy()
    middle = (low[0] + high[0]) / 2
    turned[0] = middle + (turned[0] - middle + 180.0) % 360.0 - 180.0
    return np.clip(turned, low, high)


def _probability(
    data: Data,
    path: list[Fit],
    weights: NDArray[np.float64],
    directions: NDArray[np.float64],
    errors: NDArray[np.float64],
    ambiguous: list[list[NDArray[np.float64]]],
) -> NDArray[np.float64]:
    """Return for every direction the probability of the numbers of sources that have one there, or at a lookalike."""
    nearby = np.maximum(data.beam / 2, 3 * errors.max(axis=1, initial=0.0))
    probability = np.zeros(len(directions))
    for k, direction in enumerate(directions):
        places = [direction, *ambiguous[k]]
        for weight, model in zip(weights, path, strict=True):
            probability[k] += weight * any((distances(model.directions, at) <= nearby[k]).any() for at in places)
    return probability


def _shares(others: list[list[Lookalike]]) -> NDArray[np.float64]:
    """Return the probability of every direction next to those of its lookalikes."""
    return np.array([1.0 / (1.0 + sum(np.exp(-other.lacks) for other in own)) for own in others])


def _warn_of_spacing(data: Data, ambiguous: list[list[NDArray[np.float64]]]) -> None:
    """Warn where all neighbours are more than half a wavelength apart, if that matters or the unit may be wrong."""
    lowest = min(data.frequencies, key=lambda frequency: frequency or 0.0)
    waves = data.array.waves(lowest)
    apart = np.linalg.norm(waves[:, None] - waves, axis=-1) + np.diag(np.full(len(waves), np.inf))
    spacing = float(apart.min())
    if spacing > 0.5 + 1e-9 and (any(ambiguous) or spacing > WRONG_UNIT):
        half, unit = (0.5, "wavelengths") if lowest is None else (0.5 * (data.array.speed or 0.0) / lowest, "m")
        warnings.warn(
            f"sensors are {2 * half * spacing:.3g} {unit} apart, half a wavelength is {half:.3g} {unit}: waves from "
            "different directions look the same (grating lobes). Are positions in the right unit?",
            UserWarning,
            stacklevel=4,
        )


def _beamformer(data: Data, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the power that a beamformer receives from every direction of the grid, over all frequencies."""
    power = np.zeros(len(grid))
    for R, frequency in zip(data.R, data.frequencies, strict=True):
        a = data.array.steering(grid[:, 0], grid[:, 1] if data.two else 0.0, frequency=frequency) / len(data.array)
        power += np.einsum("nm,nm->m", a.conj(), R @ a).real
    return power
