"""Photographs and networks of the experiment ``stereo``, created once and stored with the other networks."""

from __future__ import annotations

import hashlib
import json
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsparse import __version__, stereo
from maxsparse._core.atomic import atomic_write
from maxsparse.experiments.recipes import Store

if TYPE_CHECKING:
    from maxsparse.stereo import NormalMap, Scene

__all__ = ["photographs", "timed", "trained_network"]

TIMES = 3  # timed runs, of which the median counts


def photographs(settings: dict[str, Any], seed: int, folder: Path) -> Scene:
    """Return one draw of lights with the photographs under all of them; smaller draws are its first lights."""
    return _photographs(settings["object"], settings["size"], max(settings["lights"]), seed, folder)


@lru_cache(maxsize=16)
def _photographs(kind: str, size: int, q: int, seed: int, folder: Path) -> Scene:
    lights = stereo.hemisphere_lights(q, rng=seed)
    if kind != "bunny":
        return _ball(size, lights)
    path = folder / f"stereo-{_key(kind, size, q, seed)}.npz"
    if not path.is_file():
        made = stereo.render(lights, size=size, rng=seed)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            np.savez_compressed(stream, I=made.readings.T, L=made.lights, mask=made.mask, normal=made.normals)  # type: ignore[arg-type]
    return stereo.load(path)


def _ball(size: int, lights: NDArray[np.float64]) -> Scene:
    """Return a glossy ball, which is fast to render."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    n = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    half = lights + np.array([0, 0, 1])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    images = np.maximum(np.einsum("hwi,qi->qhw", n, lights), 0)
    images += np.maximum(np.einsum("hwi,qi->qhw", n, half), 0) ** 50
    return stereo.make_scene(images, lights, mask=x**2 + y**2 < 0.85, normals=n)


def trained_network(settings: dict[str, Any], lights: NDArray[np.float64], seed: int, store: Store) -> Path:
    """Return the file of the paper's network for a rig; it is trained if missing."""
    from maxsparse.stereo.methods.network import train_network

    path = store.folder / f"stereo-{_key(lights.round(6).tolist(), settings['network'], seed)}.safetensors"
    if not path.is_file():
        store.folder.mkdir(parents=True, exist_ok=True)
        options = {"n_threads": 1, "device": store.device, "progress": True, **settings["network"]}
        train_network(lights, path, minutes=None, rng=seed, **options)
    return path


def timed(scene: Scene, method: str, options: dict[str, Any]) -> tuple[NormalMap, float]:
    """Run a method once to compile and load it, then time it."""
    result = stereo.estimate_normals(scene, method, **options)
    seconds = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        stereo.estimate_normals(scene, method, **options)
        seconds.append(time.perf_counter() - begun)
    return result, float(np.median(seconds))


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps([__version__, *parts], sort_keys=True).encode()).hexdigest()[:16]
