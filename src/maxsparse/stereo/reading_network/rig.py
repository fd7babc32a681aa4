"""The network of ``auto`` fine-tuned to one rig of lights, and its file in the cache."""

from __future__ import annotations

from pathlib import Path

from maxsparse._core.validation import FloatArray, check_number
from maxsparse.stereo.reading_network.store import bundled_digest, bundled_paths
from maxsparse.stereo.rig_files import made_once, rig_file

__all__ = ["tune", "tuned_path"]

SHORTEST = 0.001  # minutes


def tuned_path(lights: FloatArray, minutes: float | None = None, *, steps: int | None = None) -> Path:
    """Return the file of the network fine-tuned to these lights; train it if there is none.

    Parameters
    ----------
    lights : ndarray of shape (q, 3)
    minutes : float or None, default=None
        Time to train.
    steps : int or None, default=None
        Steps to train, instead of `minutes`; reproducible.

    Returns
    -------
    path : Path
    """
    if minutes is not None:
        minutes = check_number(minutes, "minutes", low=SHORTEST)
    length = f"{steps} steps" if minutes is None else f"{minutes:g}"
    # Another version of the package may have other bundled weights, so tuned ones are not shared between versions.
    path = rig_file(lights, "stereo-auto", f"{length} {bundled_digest()}")
    return made_once(path, lambda made: tune(lights, made, minutes=minutes, steps=steps))


def tune(lights: FloatArray, path: Path, *, minutes: float | None = None, steps: int | None = None) -> None:
    """Fine-tune the bundled network to a rig and write it atomically; on Ctrl-C nothing is written.

    Parameters
    ----------
    lights : ndarray of shape (q, 3)
    path : Path
        File to write.
    minutes : float or None, default=None
    steps : int or None, default=None
        Instead of `minutes`; reproducible.
    """
    from maxsparse.stereo.reading_network.store import load_network, save_network
    from maxsparse.stereo.reading_network.train import train_for_rig  # torch: only for training

    first = next(map(load_network, bundled_paths()), None)
    seconds = None if minutes is None else 60 * minutes
    network = train_for_rig(seconds, steps=steps, network=first, lights=lights, progress=True)
    save_network(network, path)
