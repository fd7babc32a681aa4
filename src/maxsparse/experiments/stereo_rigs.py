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
from maxsparse.experiments.recipes import NOTE, Diverged, Store

if TYPE_CHECKING:
    from maxsparse.stereo import NormalMap, Scene

__all__ = ["COMPUTED", "photographs", "timed", "trained_network"]

COMPUTED = "bunny, computed"
MATERIALS: dict[str, dict[str, Any]] = {"bunny": {}, "bunny, matt": {"material": "diffuse"}}  # that are rendered
# Strength and roughness of its highlights: of those tried, LS, ℓ1 and SBL come closest to the paper's table with these.
GLOSS, ROUGHNESS = 0.2, 0.1
TIMES = 3  # timed runs, of which the median counts


def photographs(settings: dict[str, Any], seed: int, folder: Path, scene: str | None = None) -> Scene:
    """Return one draw of lights with the photographs under all of them; smaller draws are its first lights."""
    return _photographs(scene or settings["object"], settings["size"], max(settings["lights"]), seed, folder)


@lru_cache(maxsize=16)
def _photographs(kind: str, size: int, q: int, seed: int, folder: Path) -> Scene:
    lights = stereo.hemisphere_lights(q, rng=seed)
    if kind == "ball":
        return _ball(size, lights)
    if kind == COMPUTED:
        matt = _photographs("bunny, matt", size, 4, 0, folder)  # for its mask and normals
        assert matt.normals is not None
        return stereo.make_scene(
            _glossy(np.asarray(matt.normals, dtype=np.float64), lights), lights, mask=matt.mask, normals=matt.normals
        )
    path = folder / f"stereo-{_key(kind, size, q, seed)}.npz"
    if not path.is_file():
        made = stereo.render(lights, size=size, rng=seed, **MATERIALS[kind])
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            np.savez_compressed(stream, I=made.readings.T, L=made.lights, mask=made.mask, normal=made.normals)  # type: ignore[arg-type]
    return stereo.load(path)


def _glossy(normals: NDArray[np.float64], lights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return images (q, H, W) of a matt surface with one highlight (GGX), in attached shadows but not in cast ones."""
    view = np.array([0.0, 0.0, 1.0])
    half = (lights + view) / np.linalg.norm(lights + view, axis=1, keepdims=True)
    to_light, to_half = (np.maximum(np.einsum("hwc,qc->qhw", normals, each), 0.0) for each in (lights, half))
    to_view = np.maximum(normals[..., 2], 1e-3)
    squared = ROUGHNESS**2
    lobe = squared / (np.pi * (to_half**2 * (squared - 1.0) + 1.0) ** 2)
    masking = [2.0 * c / (c + np.sqrt(squared + (1.0 - squared) * c * c) + 1e-9) for c in (to_light, to_view)]
    fresnel = 0.5 + 0.5 * (1.0 - np.maximum(half[:, 2], 0.0)) ** 5
    highlight = np.pi * lobe * masking[0] * masking[1] * fresnel[:, None, None] / (4.0 * to_view)
    images: NDArray[np.float64] = np.where(to_light > 0.0, 0.5 * to_light + GLOSS * highlight, 0.0)
    return images


def _ball(size: int, lights: NDArray[np.float64]) -> Scene:
    """Return a glossy ball, which is fast to render."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    n = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    half = lights + np.array([0, 0, 1])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    images = np.maximum(np.einsum("hwi,qi->qhw", n, lights), 0)
    images += np.maximum(np.einsum("hwi,qi->qhw", n, half), 0) ** 50
    return stereo.make_scene(images, lights, mask=x**2 + y**2 < 0.85, normals=n)


def trained_network(
    settings: dict[str, Any], lights: NDArray[np.float64], seed: int, store: Store, scene: str | None = None
) -> Path:
    """Return the file of the paper's network for a rig; it is trained if missing, and resumed if interrupted."""
    from maxsparse.stereo.methods.network import LAW, train_network
    from maxsparse.training import DivergenceError, preset_for

    # What the options leave open is written out, so that a changed default does not find an old network.
    options = {**LAW, **_law(settings, scene, len(lights)), **settings["network"]}
    resolved = preset_for("residual", options.get("settings", "modern")).but(**options.get("changes", {})).to_json()
    key = _key(lights.round(6).tolist(), options, resolved, seed)
    path = store.folder / f"stereo-{key}.safetensors"
    note = path.with_suffix(".diverged.txt")
    if not path.is_file() and not note.is_file():
        store.folder.mkdir(parents=True, exist_ok=True)
        if changes := options.pop("changes", None):
            options["settings"] = preset_for("residual").but(**changes)
        options = {"n_threads": 1, "device": store.device, "progress": True, **options}
        try:
            train_network(lights, path, minutes=None, rng=seed, keep=True, **options)
        except DivergenceError as error:
            with atomic_write(note) as stream:
                stream.write(f"{NOTE} residual: {error.reason} after {error.samples:,} signals\n".encode())
    if note.is_file():
        raise Diverged(f"{note.read_text(encoding='utf-8').strip()} (remove {str(note)!r} to train it again)")
    return path


def _law(settings: dict[str, Any], scene: str | None, q: int) -> dict[str, Any]:
    """Return the law of the outliers that the network of a scene trains on; empty for that of the method."""
    if "laws" not in settings:
        return {}
    law = dict(settings["laws"][scene or settings["object"]])
    return {"outliers": [1, round(law.pop("share") * q)], **law}


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
