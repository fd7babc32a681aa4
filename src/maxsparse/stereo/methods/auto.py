"""The method to use: consensus on lit readings, refined by a network that has seen what real outliers look like."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.learned.forward import refine
from maxsparse.stereo.learned.rig import tuned_path
from maxsparse.stereo.learned.start import first_guess
from maxsparse.stereo.learned.store import bundled_weights, read_once
from maxsparse.stereo.methods._fit import Fit
from maxsparse.stereo.methods.redescending import Refit, redescending

__all__ = ["auto"]

HALF_SURE = 6.0  # degrees of expected error at which the confidence is one half
NEAR = 5.0  # degrees: fits further apart than this differ in kind, and are not averaged unless most readings agree
# Share of the lit readings, and weight in all, that the refit needs to be believed against the network: under 8 and 10
# lights it would win by four or five readings that agree by chance.
MOST, MANY = 0.6, 6.0
DOUBT = 2.0  # the refit knows its scatter but not its bias, so its expected error is taken this many times
CLEAN = 0.01  # of the albedo: scatter up to which readings pass for matt; beyond it the refit loses its say
OPEN = 4.0  # degrees between network and refit above which neighbours decide


def auto(
    readings: FloatArray,
    lights: FloatArray,
    *,
    model: str | os.PathLike[str] | None = None,
    minutes: float | None = None,
) -> Fit:
    """Fit by consensus, let a network weigh every reading anew, and blend it with a robust refit.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    model : path or None, default=None
        File of the network's weights, from ``python -m maxsparse.stereo.learned.train`` or from
        :func:`maxsparse.stereo.learned.store.save_network`. None takes the bundled ones, which serve every rig, unless
        `minutes` is given.
    minutes : float or None, default=None
        Time to tune the bundled network to these lights: once per rig and length of training, then it is taken from the
        cache folder (the environment variable MAXSPARSE_CACHE, else ``~/.cache/maxsparse``). A terminal shows how far
        it is. None does not tune.

    Returns
    -------
    fit : Fit
        ``inliers`` are the lit readings that the network gives more than even odds; ``confidence`` falls from 1 to 0
        with the angular error it expects, 1/2 at 6 degrees. ``rivals`` are there where network and refit disagree.

    See Also
    --------
    maxsparse.stereo.learned.model.ReadingNetwork : The network.
    maxsparse.stereo.methods.consensus.consensus : Where it starts, and what it is where no network is bundled.
    maxsparse.stereo.methods.redescending.redescending : The refit.
    maxsparse.stereo.methods.neighbours.decide : Who decides where the two disagree.
    """
    if model is not None and minutes is not None:
        raise ValueError("give either model or minutes: a network that was read from a file is not tuned")
    path = tuned_path(lights, minutes) if minutes is not None else model
    weights = bundled_weights() if path is None else read_once(path)
    start, guess = first_guess(np.asarray(readings, dtype=np.float64), lights)
    if weights is None:
        return guess
    answer = refine(start, weights)
    lit = start.lit > 0
    refit = redescending(np.maximum(readings, 0.0), lights, lit, guess)
    known = guess.albedo > 0
    error = np.degrees(np.exp(np.minimum(answer.log_error.astype(np.float64), 2.0)))
    learned = answer.normals.astype(np.float64)
    albedo = np.where(known, answer.albedo, 0.0).astype(np.float64)
    other = _unit(refit.scaled)
    gap = np.degrees(2.0 * np.arcsin(np.minimum(np.linalg.norm(learned - other, axis=1) / 2.0, 1.0)))
    share = _share(error, refit, gap, lit.sum(axis=1))[:, None]
    return Fit(
        np.where(known[:, None], _unit((1.0 - share) * learned + share * other), 0.0),
        albedo,
        (answer.logits > 0) & lit,
        np.where(known, 1.0 / (1.0 + (error / HALF_SURE) ** 2), 0.0),
        _rivals(learned * albedo[:, None], refit.scaled, known & (gap > OPEN)),
    )


def _share(error: FloatArray, refit: Refit, gap: FloatArray, n_lit: NDArray[np.intp]) -> FloatArray:
    """Return the weight (P,) of the refit beside the network's normals, of which 1 − share is left.

    By their expected errors, where readings are matt: there the refit is the more exact of the two. It says nothing
    where it rests on few readings or its residuals scatter. Far from the network one of the two is plainly wrong, and
    that is the network only where most readings agree on something else.
    """
    resting = refit.support / np.maximum(n_lit, 1)
    share = error**2 / (error**2 + (DOUBT * refit.error) ** 2)
    share = share * np.clip((resting - 0.3) / 0.4, 0.0, 1.0)
    share = share * np.exp(-((np.maximum(refit.scatter - CLEAN, 0.0) / CLEAN) ** 2))
    believed = (resting > MOST) & (refit.support > MANY)
    return np.where((gap < NEAR) | believed, share, 0.0)


def _rivals(learned: FloatArray, refit: FloatArray, open_: NDArray[np.bool_]) -> FloatArray:
    """Return what neighbours may choose from, (P, 3, 3): the refit, the network's normal, and the one between."""
    between = _unit(_unit(learned) + _unit(refit))
    length = (np.linalg.norm(learned, axis=1) + np.linalg.norm(refit, axis=1))[:, None] / 2.0
    return np.where(open_[:, None, None], np.stack([refit, learned, between * length], axis=1), 0.0)


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
