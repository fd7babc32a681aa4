"""Train a network for a dictionary in one call, and resume after an interruption."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxsparse import signals
from maxsparse._core.validation import RandomState, check_choice, check_dictionary, check_seed
from maxsparse.networks import SignalNetwork, build, check_hyperparameters, find
from maxsparse.networks.storage import rebuild
from maxsparse.training.budget import Budget, Report
from maxsparse.training.checkpoint import checkpoint_path, read_checkpoint
from maxsparse.training.data import SupportTask
from maxsparse.training.loop import train
from maxsparse.training.losses import LOSSES, OUTPUT_FOR
from maxsparse.training.presets import Settings, preset_for

__all__ = ["fit", "loss_for", "resume"]


def fit(
    Phi: ArrayLike,
    network: str = "residual",
    *,
    sparsity: int | tuple[int, int] | None = None,
    amplitudes: str | signals.AmplitudeLaw = "uniform",
    noise: float = 0.0,
    snr_db: float | None = None,
    loss: str | None = None,
    set_size: int | None = None,
    settings: Settings | str = "modern",
    hyperparameters: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    rng: RandomState = None,
    **options: Any,
) -> tuple[SignalNetwork, Report]:
    """Train a network to recover signals of one dictionary.

    Parameters
    ----------
    Phi : array-like of shape (n, m)
        Dictionary.
    network : str, default="residual"
        A name in ``maxsparse.networks.NETWORKS``.
    sparsity : int, (int, int) or None, default=None
        Number of nonzeros of the training signals, or the range it is drawn from; None for 1 to n/2, m at most.
    amplitudes, noise, snr_db
        As for :func:`maxsparse.signals.sample`.
    loss : {"softmax", "sigmoid", "least_squares"} or None, default=None
        None uses that of the network: ``"softmax"``, or ``"least_squares"`` for ISTA-Net and IHT-Net.
    set_size : int or None, default=None
        Train repeatedly on this many signals; None for new ones all the time, unless the settings have a size.
    settings : Settings or str, default="modern"
        Training settings, or the name of a preset.
    hyperparameters : mapping or None, default=None
        Of the network, for example ``{"width": 200}``.
    output : path or None, default=None
        Model file; see :func:`train`.
    rng : int, numpy.random.Generator or None, default=None
        Seed of the initial weights and of all signals.
    **options
        For :func:`train`: ``minutes=``, ``samples=``, ``overwrite=``, ``device=``, ``n_threads=``, ``progress=``,
        ``callback=``.

    Returns
    -------
    network : SignalNetwork
        With the best weights, in evaluation mode.
    report : Report

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(10, 20, rng=0)
    >>> small = {"width": 32, "depth": 4}
    >>> network, report = ms.training.fit(Phi, sparsity=1, samples=20_000, hyperparameters=small, rng=0, n_threads=1)
    >>> X, Y = ms.signals.sample(Phi, 100, sparsity=1, rng=1)
    >>> ms.metrics.strict_accuracy(X, network.scores(Y)) > 0.5
    True
    """
    dictionary = check_dictionary(Phi)
    n, m = dictionary.shape
    if not issubclass(find(network), SignalNetwork):
        raise ValueError(f"network {network!r} is not for one dictionary; use train() with its task")
    chosen = preset_for(network, settings) if isinstance(settings, str) else settings
    if not isinstance(chosen, Settings):
        raise ValueError(f"settings must be a Settings or the name of a preset, got {settings!r}")
    if rng is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("several processes need one seed: give rng=")
    seed = check_seed(rng)
    details = dict(hyperparameters or {})
    check_hyperparameters(network, details, but=("n", "m"))
    loss = loss_for(network, loss, details)
    task = SupportTask(
        dictionary,
        sparsity=(1, max(1, min(n // 2, m))) if sparsity is None else sparsity,
        amplitudes=amplitudes,
        noise=noise,
        snr_db=snr_db,
        loss=loss,
        set_size=chosen.set_size if set_size is None else set_size,
        rng=seed,
    )
    Y = task.typical()
    ratio = noise / float(np.sqrt(np.mean(Y**2))) if snr_db is None else 10.0 ** (-snr_db / 20.0)
    made = build(network, dictionary, Y=Y, noise=ratio, rng=seed, **details)
    _say_how_to_resume(output, options)
    return made, train(made, task, chosen, output=output, **options)


def resume(output: str | os.PathLike[str], **options: Any) -> tuple[SignalNetwork, Report]:
    """Resume an interrupted :func:`fit` from its checkpoint.

    Parameters
    ----------
    output : path
        Model file of the run.
    **options
        For :func:`train`: ``device=``, ``n_threads=``, ``progress=``, ``callback=``. With the same number
        of threads, the result is bitwise identical to that of an uninterrupted run.

    Returns
    -------
    network : SignalNetwork
    report : Report
    """
    if fixed := sorted(options.keys() & {"minutes", "samples", "resume"}):
        raise ValueError(f"resume does not accept {fixed[0]}=: it is in the checkpoint; omit it")
    path = checkpoint_path(output)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {str(path)!r}: the run is finished, or was never started")
    tensors, header = read_checkpoint(path)
    try:
        settings = dict(header["run"]["task"])
        if settings.pop("task") != "support" or settings["amplitudes"] == "custom":
            raise ValueError("it was not started by fit(), or with custom amplitudes; call train() with resume=True")
        task = SupportTask(tensors["arrays/Phi"].numpy(), **{**settings, "sparsity": tuple(settings["sparsity"])})
        network = rebuild(path, tensors, header)
        recipe, budget = Settings(**header["run"]["settings"]), Budget(**header["run"]["budget"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"cannot resume from {str(path)!r}: {error}") from error
    if not isinstance(network, SignalNetwork):
        raise ValueError(
            f"output holds a run of another kind of network, {type(network).__name__}; it cannot be resumed here"
        )
    _say_how_to_resume(output, options)
    options |= {"minutes": budget.minutes, "samples": budget.samples, "output": Path(output), "resume": True}
    return network, train(network, task, recipe, **options)


def _say_how_to_resume(output: str | os.PathLike[str] | None, options: dict[str, Any]) -> None:
    """Set the message on how to resume to the function of this module, unless the caller gave one."""
    if output is not None and options.get("resume_command") is None:
        options["resume_command"] = f"maxsparse.training.resume({os.fspath(output)!r})"


def loss_for(network: str, loss: str | None, hyperparameters: dict[str, Any]) -> str:
    """Set the default loss, and the default output type for the loss."""
    if loss is None:
        usual = inspect.signature(find(network)).parameters["output"].default
        loss = "softmax" if hyperparameters.get("output", usual) == "logits" else "least_squares"
    hyperparameters.setdefault("output", OUTPUT_FOR[check_choice(loss, "loss", tuple(LOSSES))])
    return loss
