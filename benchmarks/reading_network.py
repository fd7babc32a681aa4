"""Another network for ``auto`` next to the bundled one, on photographs and on a material that neither was trained on.

    python benchmarks/reading_network.py [benchmarks/results/reading_wide.safetensors]

Mean angular errors in degrees go to benchmarks/results/reading_network.json. The photographs are read from the folder
in the environment variable MAXSPARSE_DATA, else from ./data.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from machine import describe

from maxsparse import stereo
from maxsparse._core.atomic import atomic_write
from maxsparse.metrics import angular_error

RESULTS = Path(__file__).parent / "results"
OBJECTS = ("ball", "cat", "reading")
FEW, DRAWS = 10, 10


def rough_and_glossy(count, lights, seed):
    """Return readings (count, q) and normals: Oren and Nayar's rough material with Blinn's highlight."""
    rng = np.random.default_rng(seed)
    n = rng.standard_normal((count, 3)) * [0.5, 0.5, 0] + [0, 0, 1]
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    half = lights + np.array([0.0, 0.0, 1.0])
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    nl, nv = np.clip(n @ lights.T, 0, 1), n[:, 2:]
    across = lights[None] - nl[..., None] * n[:, None]
    view = np.array([0.0, 0.0, 1.0]) - nv * n
    across /= np.maximum(np.linalg.norm(across, axis=2, keepdims=True), 1e-9)
    view /= np.maximum(np.linalg.norm(view, axis=1, keepdims=True), 1e-9)
    cosine = np.maximum(np.einsum("pqi,pi->pq", across, view), 0)
    alpha, beta = np.maximum(np.arccos(nl), np.arccos(nv)), np.minimum(np.arccos(nl), np.arccos(nv))
    diffuse = nl * (0.8 + 0.35 * cosine * np.sin(alpha) * np.tan(np.minimum(beta, 1.4)))
    return diffuse + 0.4 * (nl > 0) * np.clip(n @ half.T, 0, 1) ** 30, n


def photographs(model):
    """Return the errors on real objects with all lights and with few, and the seconds of the first."""
    folder = Path(os.environ.get("MAXSPARSE_DATA", "data"))
    found = {}
    for name in OBJECTS:
        scene = stereo.load(folder / f"diligent_{name}.npz")
        begun = time.process_time()
        whole = stereo.estimate_normals(scene, model=model).mean_error
        seconds = time.process_time() - begun
        draws = [scene.select(np.random.default_rng(draw).permutation(96)[:FEW]) for draw in range(DRAWS)]
        few = np.mean([stereo.estimate_normals(drawn, model=model).mean_error for drawn in draws])
        found[name] = {"96 lights": round(whole, 3), "10 lights": round(float(few), 3), "cpu s": round(seconds, 1)}
        print(found[name], flush=True)
    return found


def material(model):
    """Return the errors on single pixels of a material that was not in training."""
    found = {}
    for q in (40, FEW):
        lights = stereo.hemisphere_lights(q, rng=q)
        readings, normals = rough_and_glossy(3000, lights, seed=0)
        fit = stereo.methods.find_method("auto")(readings, lights, model=model)
        found[f"{q} lights"] = round(float(angular_error(fit.normals, normals).mean()), 3)
    return {"rough and glossy": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?", default=RESULTS / "reading_wide.safetensors")
    given = parser.parse_args()
    models = {"bundled": None, "wide": given.model}
    degrees = {label: photographs(model) | material(model) for label, model in models.items()}
    summary = {
        "degrees": degrees,
        "command": "python benchmarks/reading_network.py",
        "run": describe(("maxsparse", "numpy", "numba")),
    }
    with atomic_write(RESULTS / "reading_network.json") as stream:
        stream.write((json.dumps(summary, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
