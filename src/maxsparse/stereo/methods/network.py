"""The paper's method: a residual network scores outliers; the four readings with the lowest scores give the normal."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import dictionaries
from maxsparse._core.registry import STEREO
from maxsparse._core.threads import over_slices
from maxsparse._core.validation import FloatArray, check_integer, check_number
from maxsparse.stereo.fitting.fit import Fit, agreement
from maxsparse.stereo.fitting.kernels import fit_rows
from maxsparse.stereo.rig_files import made_once, rig_file

if TYPE_CHECKING:
    from maxsparse.networks import SignalNetwork

__all__ = ["LAW", "network", "train_network"]

INLIERS = 4  # readings that the normal is fitted to
VARIANCE = 0.25  # of outliers, relative to the square of the pixel's brightest reading
LAW = {"outliers": None, "mean": 0.0, "variance": VARIANCE}  # of training outliers, unless another is given


@STEREO.register("network", summary="the paper's network, trained for the lights", order=31)
def network(
    readings: FloatArray,
    lights: FloatArray,
    *,
    model: str | os.PathLike[str] | None = None,
    minutes: float = 10.0,
    inliers: int = INLIERS,
    outliers: tuple[int, int] | None = None,
    mean: float = 0.0,
    variance: float = VARIANCE,
    device: str = "auto",
) -> Fit:
    r"""Fit the normal to the readings least likely to be outliers, four by default.

    .. math:: y = \Phi o = \Phi e, \qquad \Phi L = 0

    A network trained on random sparse e scores the support of e; the lowest scores are the inliers.

    Parameters
    ----------
    readings : ndarray of shape (P, q)
    lights : ndarray of shape (q, 3)
    model : path or None, default=None
        File of the network for this rig. None uses the one in the cache folder (the environment variable
        MAXSPARSE_CACHE, else ``~/.cache/maxsparse``); if there is none, it is trained.
    minutes : float, default=10.0
        Time to train, once per rig and training time. A terminal shows the progress.
    inliers : int, default=4
        Number of readings used for the normal; the paper uses 4 for every q.
    outliers, mean, variance
        Law of the training outliers, see :func:`train_network`; every law has a network of its own in the cache.
    device : str, default="auto"
        Device for training and inference; ``"auto"`` uses CUDA if available.

    Returns
    -------
    fit : Fit

    Notes
    -----
    Section "Practical Application: Photometric Stereo" of the paper. The lights determine Φ, so one network works for
    every scene under them.
    """
    inliers = check_integer(inliers, "inliers", low=3, high=len(lights))

    law = {"outliers": outliers, "mean": mean, "variance": variance}

    def make(path: Path) -> None:
        train_network(lights, path, **law, minutes=minutes, device=device, progress=True)  # type: ignore[arg-type]

    path = made_once(cached_path(lights, minutes, **law), make) if model is None else Path(model)  # type: ignore[arg-type]
    scored = _load(str(path), path.stat().st_mtime_ns, device)
    Phi = dictionaries.lighting(lights)
    if scored.hyperparameters.get("n") != Phi.shape[0] or scored.hyperparameters.get("m") != Phi.shape[1]:
        raise ValueError(f"the network in {str(path)!r} is for another number of lights than {Phi.shape[1]}")
    brightest = np.maximum(np.abs(readings).max(axis=1, keepdims=True, initial=0.0), 1e-12)
    scores = scored.scores(np.einsum("pq,nq->pn", readings / brightest, Phi)) if len(readings) else readings
    weights = np.zeros(readings.shape)
    np.put_along_axis(weights, np.argsort(scores, axis=1, kind="stable")[:, :inliers], 1.0, axis=1)
    scaled = np.zeros((len(readings), 3))
    over_slices(
        fit_rows,
        len(readings),
        np.ascontiguousarray(readings, dtype=np.float64),
        np.ascontiguousarray(lights),
        weights,
        scaled,
    )
    return Fit.from_scaled(scaled, weights > 0, agreement(readings, lights, scaled, weights > 0))


def train_network(
    lights: FloatArray,
    path: str | os.PathLike[str],
    *,
    outliers: tuple[int, int] | None = None,
    mean: float = 0.0,
    variance: float = VARIANCE,
    minutes: float | None = 10.0,
    rng: int = 0,
    keep: bool = False,
    **options: Any,
) -> None:
    """Train the paper's network for a rig and write it to a file atomically.

    Parameters
    ----------
    lights : ndarray of shape (q, 3)
    path : str or path
        File to write.
    outliers : (int, int) or None, default=None
        Range [d1, d2] of the number of outliers, drawn uniformly; None is 1 to q − 4.
    mean, variance : float, default=0.0 and 0.25
        Of the gaussian values of the outliers, relative to the pixel's brightest reading.
    minutes : float or None, default=10.0
        Time to train; None if ``samples=`` is among the options.
    rng : int, default=0
        Seed.
    keep : bool, default=False
        Keep the state of an interrupted training in a hidden folder next to `path`, from which the next call with the
        same arguments resumes; with ``samples=`` the result is bitwise identical to that of an uninterrupted one.
    **options
        For :func:`maxsparse.training.fit`, for example ``hyperparameters={"width": 64}`` or ``progress=True``.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: no file is written, because a partly trained network would later be used as a complete one.
    """
    from maxsparse import training

    q, target = len(lights), Path(path)
    Phi = dictionaries.lighting(lights)
    # Random outliers cannot be identified if there are as many as rows of Φ, so the support is smaller.
    low, high = (1, min(max(1, q - INLIERS), Phi.shape[0])) if outliers is None else outliers
    low = check_integer(low, "outliers", low=1)
    high = check_integer(high, "outliers", low=low, high=Phi.shape[0])
    law = _gaussian(check_number(mean, "mean"), check_number(variance, "variance", low=0.0))
    problem: dict[str, Any] = {"sparsity": (low, high), "amplitudes": law, "rng": rng}
    with _workshop(target, keep) as folder:
        made = folder / target.name
        options["resume"] = training.checkpoint_path(made).exists()
        _, report = training.fit(Phi, "residual", **problem, minutes=minutes, output=made, **options)
        if not report.finished:  # the first Ctrl-C ends the training, not the program
            raise KeyboardInterrupt
        os.replace(made, target)


def cached_path(
    lights: FloatArray,
    minutes: float = 10.0,
    *,
    outliers: tuple[int, int] | None = None,
    mean: float = 0.0,
    variance: float = VARIANCE,
) -> Path:
    """Return the file of the network for these lights, this training time and this law of outliers."""
    usual = {"outliers": outliers, "mean": mean, "variance": variance} == LAW
    law = "" if usual else f" {outliers} {mean:g} {variance:g}"
    return rig_file(lights, "stereo", f"{float(minutes):g}{law}")


def _gaussian(mean: float, variance: float) -> Callable[[np.random.Generator, int], NDArray[np.float64]]:
    if mean == 0.0 and variance == 0.0:
        raise ValueError("mean and variance of the outliers are both 0: there would be no outliers")
    deviation = math.sqrt(variance)
    return lambda rng, size: mean + deviation * rng.standard_normal(size)


@contextmanager
def _workshop(target: Path, keep: bool) -> Iterator[Path]:
    """Yield a folder to train in; it is removed at the end, or where it is kept, when the network is finished."""
    if not keep:
        with tempfile.TemporaryDirectory(prefix=f".{target.stem}-", dir=target.parent) as folder:
            yield Path(folder)
        return
    kept = target.parent / f".{target.stem}.training"
    kept.mkdir(parents=True, exist_ok=True)
    yield kept
    shutil.rmtree(kept)


@lru_cache(maxsize=4)
def _load(path: str, changed: int, device: str) -> SignalNetwork:
    """Load a network once per version of its file; `changed` is the time it was written."""
    from maxsparse import networks
    from maxsparse.training.processes import pick_device

    loaded = networks.load(path).network
    if not isinstance(loaded, networks.SignalNetwork):
        raise ValueError(f"{path!r} is not a network that scores the atoms of one dictionary")
    return loaded.to(pick_device(device)).eval()
