"""The default method: consensus on lit readings, refined by networks trained on realistic outliers."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.registry import STEREO
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.fitting.fit import Fit
from maxsparse.stereo.fitting.redescending import Refit, redescending
from maxsparse.stereo.reading_network.forward import average, refine
from maxsparse.stereo.reading_network.rig import tuned_path
from maxsparse.stereo.reading_network.start import first_guess
from maxsparse.stereo.reading_network.store import bundled_weights, read_once

__all__ = ["auto", "expected_error"]

HALF_SURE = 6.0  # degrees of expected error at which the confidence is one half
NEAR = 5.0  # degrees: fits further apart than this are not averaged unless most readings agree
# Share of the lit readings, and total weight, that the refit needs to overrule the network: under 8 and 10 lights,
# four or five readings that agree by chance would be enough otherwise.
MOST, MANY = 0.6, 6.0
DOUBT = 2.0  # factor on the refit's expected error, which contains its scatter but not its bias
CLEAN = 0.01  # of the albedo: scatter up to which readings count as matt; above it the refit is ignored
OPEN = 4.0  # degrees between network and refit above which neighbours decide


@STEREO.register("auto", summary="consensus, refined by a network that has seen real outliers", order=0)
def auto(
    readings: FloatArray,
    lights: FloatArray,
    *,
    model: str | os.PathLike[str] | None = None,
    minutes: float | None = None,
) -> Fit:
    """Fit by consensus, reweight the readings with networks, and blend with a robust refit.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    model : path or None, default=None
        File of the network's weights, from ``python -m maxsparse.stereo.reading_network.train`` or from
        :func:`maxsparse.stereo.reading_network.store.save_network`. None uses the two bundled networks, which work
        for every rig, unless `minutes` is given.
    minutes : float or None, default=None
        Time to fine-tune the larger bundled network to these lights, once per rig and training time; it is stored in
        the cache folder (the environment variable MAXSPARSE_CACHE, else ``~/.cache/maxsparse``). A terminal shows the
        progress. None does not fine-tune.

    Returns
    -------
    fit : Fit
        ``inliers`` are the lit readings to which the network gives a probability above one half; ``confidence`` falls
        from 1 to 0 with the expected angular error, 1/2 at 6 degrees. ``rivals`` are set where network and refit
        disagree.

    See Also
    --------
    maxsparse.stereo.reading_network.model.ReadingNetwork : The network.
    maxsparse.stereo.fitting.consensus.consensus : The first fit.
    maxsparse.stereo.fitting.redescending.redescending : The refit.
    maxsparse.stereo.fitting.neighbours.decide : Decides where the two disagree.
    """
    if model is not None and minutes is not None:
        raise ValueError("give either model or minutes: a network from a file is not fine-tuned")
    path = tuned_path(lights, minutes) if minutes is not None else model
    networks = bundled_weights() if path is None else [read_once(path)]
    start, guess = first_guess(np.asarray(readings, dtype=np.float64), lights)
    if not networks:
        return guess
    answer = average([refine(start, weights) for weights in networks])
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


def expected_error(confidence: FloatArray) -> FloatArray:
    """Return the expected angular error in degrees that the confidence of :func:`auto` tells."""
    error: FloatArray = HALF_SURE * np.sqrt(1.0 / np.maximum(confidence, 1e-6) - 1.0)
    return error


def _share(error: FloatArray, refit: Refit, gap: FloatArray, n_lit: NDArray[np.intp]) -> FloatArray:
    """Return the weight (P,) of the refit; the network's normals have weight 1 − share.

    For matt readings the weight follows from the expected errors: there the refit is more accurate. It is 0 if the
    refit has few readings or scattered residuals. If network and refit are far apart, one of them is wrong: the
    network only if most readings agree with the refit.
    """
    resting = refit.support / np.maximum(n_lit, 1)
    share = error**2 / (error**2 + (DOUBT * refit.error) ** 2)
    share = share * np.clip((resting - 0.3) / 0.4, 0.0, 1.0)
    share = share * np.exp(-((np.maximum(refit.scatter - CLEAN, 0.0) / CLEAN) ** 2))
    believed = (resting > MOST) & (refit.support > MANY)
    return np.where((gap < NEAR) | believed, share, 0.0)


def _rivals(learned: FloatArray, refit: FloatArray, open_: NDArray[np.bool_]) -> FloatArray:
    """Return the candidates for the neighbours' decision, (P, 3, 3): refit, network, and the normal between."""
    between = _unit(_unit(learned) + _unit(refit))
    length = (np.linalg.norm(learned, axis=1) + np.linalg.norm(refit, axis=1))[:, None] / 2.0
    return np.where(open_[:, None, None], np.stack([refit, learned, between * length], axis=1), 0.0)


def _unit(vectors: FloatArray) -> FloatArray:
    unit: FloatArray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
