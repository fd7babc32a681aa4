"""Photometric stereo: accuracy on rendered and real photographs, speed as ratios, memory.

    python benchmarks/stereo.py bunny materials real rig speed memory

Every part writes its figures to benchmarks/results/stereo.json. The real photographs are read from the folder in
the environment variable MAXSPARSE_DATA, else from ./data; without them the part is skipped with a message.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe
from rpca import rpca_normals

import maxsparse
from maxsparse import dictionaries, stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.output import write_png
from maxsparse.stereo.scene import Scene

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "stereo.json"
METHODS = ("ls", "l1", "sbl", "rnd4", "consensus", "auto")
POOL, DRAWS, REAL_DRAWS = 80, 4, 10
STEPS = 600  # of tuning to a rig: about two minutes of one core


def bunny(only: Sequence[str] = ()) -> dict[str, Any]:
    """Mean angular error on the rendered Bunny at q = 10, 20, 40 lights drawn from a hemisphere, and seconds."""
    scene = stereo.render(stereo.hemisphere_lights(POOL, rng=0), progress=True)
    warm(scene)
    table: dict[str, Any] = json.loads(RESULTS.read_text()).get("bunny", {}) if only else {}
    for q in (10, 20, 40):
        draws = [scene.select(np.random.default_rng(draw).permutation(POOL)[:q]) for draw in range(DRAWS)]
        for method in only or METHODS:
            errors, seconds, missing = [], [], []
            for drawn in draws:
                result, elapsed = timed(lambda drawn=drawn, method=method: stereo.estimate_normals(drawn, method))
                errors.append(result.mean_error)
                seconds.append(elapsed)
                missing.append(result.missing)
            table.setdefault(method, {})[f"q={q}"] = {
                "mean degrees": round(float(np.mean(errors)), 3),
                "each draw": [round(value, 3) for value in errors],
                "pixels without a normal": missing,
                "median seconds": round(float(np.median(seconds)), 3),
            }
            print(f"bunny q={q:2} {method:9} {np.mean(errors):6.2f}°  {np.median(seconds):6.2f} s", flush=True)
    return table


def materials() -> dict[str, Any]:
    """Mean angular error of ``auto`` with and without the scene's material, on other shapes and materials."""
    few, many = np.random.default_rng(1).permutation(40)[:10], np.arange(40)
    table: dict[str, Any] = {}
    for name, scene in other_scenes():
        for lights, chosen in (("40 lights", many), ("10 lights", few)):
            drawn = scene.select(chosen)
            errors = {
                label: round(stereo.estimate_normals(drawn, material=material).mean_error, 3)
                for label, material in (("without", False), ("with", True))
            }
            table.setdefault(name, {})[lights] = errors
            print(f"{name:30} {lights} {errors['without']:6.2f}° without, {errors['with']:6.2f}° with", flush=True)
    return table


def other_scenes() -> Iterator[tuple[str, Scene]]:
    """Yield renders of 128×128 pixels with half a per cent of noise: plastic, metal, bounced light, mixtures."""
    rng, lights = np.random.default_rng(0), stereo.hemisphere_lights(40, rng=5)

    def noisy(readings: np.ndarray, like: Scene) -> Scene:
        spoiled = readings * (1 + 0.005 * rng.standard_normal(readings.shape))
        images = np.ascontiguousarray(spoiled.T.astype(np.float32))
        return stereo.make_scene(images, lights, mask=like.mask, normals=like.normals)

    def bunny_of(**material: Any) -> Scene:
        return stereo.render(lights, size=128, **material)

    plastic = bunny_of(material="roughplastic", roughness=0.45, base_colour=0.3)
    matt = bunny_of(material="diffuse", base_colour=0.7)
    glossy = bunny_of(specular=0.5)
    rows, columns = np.nonzero(plastic.mask)
    paint = 0.6 + 0.36 * np.sign(np.sin(rows / 6.0) * np.sin(columns / 6.0))
    highlights = glossy.readings - matt.readings * (0.5 / 0.7)
    yield "Bunny, plastic", noisy(plastic.readings, plastic)
    yield "Bunny, metal", noisy(bunny_of(material="metal", roughness=0.5).readings, plastic)
    yield "Bunny, three bounces", noisy(bunny_of(roughness=0.5, base_colour=0.75, bounces=3).readings, plastic)
    half = (columns < 64)[:, None]
    yield "Bunny, half plastic, half matt", noisy(np.where(half, plastic.readings, matt.readings), plastic)
    painted = np.maximum(highlights + matt.readings * (0.5 / 0.7) * paint[:, None], 0)
    yield "Bunny, painted", noisy(painted, plastic)
    with tempfile.TemporaryDirectory() as folder:
        blob = write_blob(Path(folder) / "blob.ply")
        for name, options in (("glossy", {"specular": 0.6, "roughness": 0.25}), ("matt", {"material": "diffuse"})):
            scene = stereo.render(lights, size=128, mesh=blob, base_colour=0.6, bounces=2, **options)
            yield f"blob, {name}, two bounces", noisy(scene.readings, scene)


def write_blob(path: Path) -> Path:
    """Write a sphere with smooth bumps."""
    import trimesh

    rng = np.random.default_rng(0)
    sphere = trimesh.creation.icosphere(subdivisions=6)
    waves, phases = 3 * rng.standard_normal((14, 3)), rng.uniform(0, 6, 14)
    bumps = 0.035 * np.sin(sphere.vertices @ waves.T + phases).sum(axis=1)
    sphere.vertices = sphere.vertices * (1 + bumps)[:, None]
    sphere.export(path)
    return path


def real(only: Sequence[str] = ()) -> dict[str, Any]:
    """Mean angular error on three objects of DiLiGenT, with all 96 lights and with 10 drawn at random."""
    folder = data_folder()
    assert folder is not None
    scenes = {name: stereo.load(folder / f"diligent_{name}.npz") for name in ("ball", "cat", "reading")}
    lamps = stereo.estimate_lamp_distance(list(scenes.values()))
    ways: dict[str, Callable[[Scene], float]] = {
        **{method: partial(error_of, method=method) for method in METHODS},
        "rpca": lambda scene: float(
            angular_error(rpca_normals(scene.readings, scene.lights), scene.normals[scene.mask]).mean()
        ),
        "auto, lights far": partial(error_of, method="auto", lamp_distance="far"),
        "auto, distance of the rig": partial(error_of, method="auto", lamp_distance=lamps.distance),
    }
    before = json.loads(RESULTS.read_text()).get("real", {}) if only else {}
    table: dict[str, Any] = {name: dict(before.get(name, {})) for name in scenes}
    for name, scene in scenes.items():
        few = [scene.select(np.random.default_rng(draw).permutation(96)[:10]) for draw in range(REAL_DRAWS)]
        for method, error in ways.items():
            if only and method not in only:
                continue
            all_lights, ten = error(scene), [error(drawn) for drawn in few]
            table[name][method] = {
                "96 lights": round(all_lights, 3),
                "10 lights, mean of draws": round(float(np.mean(ten)), 3),
            }
            print(f"{name:8} {method:25} {all_lights:6.2f}° with 96, {np.mean(ten):6.2f}° with 10", flush=True)
    found = {**{name: stereo.estimate_lamp_distance(scene) for name, scene in scenes.items()}, "all three": lamps}
    return {**table, "lamp distance": {name: stored(one) for name, one in found.items()}}


def stored(found: stereo.LampDistance) -> dict[str, Any]:
    """Return a distance as plain JSON, which has no infinity."""
    return {**vars(found), "distance": found.distance if np.isfinite(found.distance) else None}


def error_of(scene: Scene, **options: Any) -> float:
    """Return the mean angular error in degrees."""
    return float(stereo.estimate_normals(scene, **options).mean_error)


def unknown() -> dict[str, Any]:
    """Errors where lights are estimated from real photographs: directions and intensities, or intensities alone."""
    folder = data_folder()
    assert folder is not None
    table: dict[str, Any] = {}
    for name in ("ball", "cat", "reading"):
        scene = stereo.load(folder / f"diligent_{name}.npz", intensities="unknown")
        begun = time.process_time()
        result = stereo.estimate_normals(scene, lights="estimate")
        seconds = time.process_time() - begun
        off = angular_error(result.light_estimate.lights, scene.lights)
        table[f"DiLiGenT {name}"] = {
            "known": stereo.estimate_normals(stereo.load(folder / f"diligent_{name}.npz")).mean_error,
            "intensities unknown": stereo.estimate_normals(scene, intensities="estimate").mean_error,
            "lights unknown": result.mean_error,
            "lights": float(off.mean()),
            "worst light": float(off.max()),
            "expected": float(result.light_estimate.error.mean()),
            "processor seconds": round(seconds, 1),
        }
        print(name, table[f"DiLiGenT {name}"], flush=True)
    found = stereo.estimate_lights(stereo.load(folder / "uw" / "cat", lights="unknown"))
    off = angular_error(found.lights, stereo.read_lights(folder / "uw" / "lights.txt"))
    figures = {"lights": float(off.mean()), "worst light": float(off.max()), "expected": float(found.error.mean())}
    table["UW cat, 12 photographs"] = figures
    return {"degrees": table, "command": "python benchmarks/stereo.py unknown"}


def rig() -> dict[str, Any]:
    """Mean angular error of ``auto`` with the bundled network and with that network tuned to the rig."""
    import torch

    from maxsparse.stereo.reading_network.rig import tuned_path

    torch.set_num_threads(1)
    table: dict[str, Any] = {}
    for name, scene in rig_scenes():
        models = {"bundled": None, "tuned": tuned_path(scene.lights, steps=STEPS)}
        table[name] = {
            label: round(stereo.estimate_normals(scene, model=model).mean_error, 3) for label, model in models.items()
        }
        print(f"{name:30} {table[name]}", flush=True)
    return {
        "mean degrees": table,
        "steps": STEPS,
        "seed": 0,
        "processor seconds per step": round(seconds_per_step(), 3),
        "command": "python benchmarks/stereo.py rig",
        "versions": {"maxsparse": maxsparse.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def rig_scenes() -> Iterator[tuple[str, Scene]]:
    """Yield real scenes under 96 lights and a draw of 10, and the rendered one under a draw each of 10, 20 and 40."""
    folder = data_folder()
    if folder is not None:
        objects = {name: stereo.load(folder / f"diligent_{name}.npz") for name in ("ball", "cat", "reading")}
        for name, scene in objects.items():  # the lights of reading differ from those of the others a little
            yield f"DiLiGenT {name}, 96 lights", scene
        for name in ("ball", "cat"):
            drawn = objects[name].select(np.random.default_rng(0).permutation(96)[:10])
            yield f"DiLiGenT {name}, 10 lights", drawn
    rendered = stereo.render(stereo.hemisphere_lights(POOL, rng=0), progress=True)
    for q in (10, 20, 40):
        drawn = rendered.select(np.random.default_rng(0).permutation(POOL)[:q])
        yield f"rendered Bunny, {q} lights", drawn


def seconds_per_step(steps: int = 30) -> float:
    """Return what a step of tuning takes on one core."""
    from maxsparse.stereo.reading_network.train import train_for_rig

    lights = stereo.hemisphere_lights(40, rng=0)
    train_for_rig(steps=3, lights=lights)
    begun = time.process_time()
    train_for_rig(steps=steps, lights=lights)
    return (time.process_time() - begun) / steps


def speed() -> dict[str, Any]:
    """Time ratios at 256×256, each the median of interleaved runs."""
    scene = ball_scene(256, 40)
    warm(scene)
    with tempfile.TemporaryDirectory() as place:
        folder = write_folder(scene, Path(place) / "photographs")

        def end_to_end(method: str) -> Callable[[], object]:
            return lambda: stereo.estimate_normals(stereo.load(folder), method)

        def command(method: str) -> Callable[[], object]:
            arguments = [sys.executable, "-m", "maxsparse", "stereo", str(folder), "-o", place, "--method", method]
            return lambda: subprocess.run(arguments, check=True, capture_output=True)

        inside = interleaved({method: end_to_end(method) for method in METHODS}, 5)
        outside = interleaved({method: command(method) for method in ("rnd4", "auto")}, 3)
    some = 300
    loop = timed(lambda: sbl_loop(scene.readings[:some].astype(np.float64), scene.lights))[1] / some
    batched = inside_kernel(scene)
    figures = {
        "pixels": int(scene.mask.sum()),
        "lights": len(scene.lights),
        "load and estimate, median seconds": {name: round(value, 4) for name, value in inside.items()},
        "auto / rnd4, load and estimate": round(inside["auto"] / inside["rnd4"], 2),
        "auto / rnd4, whole command": round(outside["auto"] / outside["rnd4"], 2),
        "whole command, median seconds": {name: round(value, 2) for name, value in outside.items()},
        "python loop / batched sbl": round(loop / batched, 1),
    }
    print(json.dumps(figures, indent=2), flush=True)
    return figures


def memory() -> dict[str, Any]:
    """Peak memory and seconds of the whole command at 612×512×96 and 2000×1500×20, without a mask."""
    figures: dict[str, Any] = {}
    for width, height, q in ((612, 512, 96), (2000, 1500, 20)):
        with tempfile.TemporaryDirectory() as place:
            folder = write_plane(Path(place) / "photographs", width, height, q)
            command = [sys.executable, "-m", "maxsparse", "stereo", str(folder), "-o", f"{place}/out"]
            begun = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise RuntimeError(f"{' '.join(command)} failed")
            seconds = time.perf_counter() - begun
        figures[f"{width}×{height}×{q}"] = {
            "peak GB": round(used.ru_maxrss / 2**20, 2),
            "seconds": round(seconds, 1),
            "processor seconds": round(used.ru_utime + used.ru_stime, 1),
        }
        print(figures, flush=True)
    return figures


def write_plane(folder: Path, width: int, height: int, q: int) -> Path:
    """Write q photographs of gentle waves with a little noise, and their lights."""
    folder.mkdir()
    lights, rng = stereo.hemisphere_lights(q, lowest=0.5, rng=0), np.random.default_rng(0)
    x, y = np.meshgrid(np.arange(width) / 40.0, np.arange(height) / 55.0)
    n = np.dstack([0.3 * np.sin(x), 0.3 * np.cos(y), np.ones_like(x)])
    n /= np.linalg.norm(n, axis=2, keepdims=True)
    for i, light in enumerate(lights):
        shading = np.maximum(n @ light, 0) + 0.002 * rng.standard_normal((height, width))
        write_png(np.clip(40000 * shading, 0, 65535).astype(np.uint16), folder / f"{i:03}.png")
    np.savetxt(folder / "lights.txt", lights)
    return folder


def sbl_loop(readings: np.ndarray, lights: np.ndarray) -> np.ndarray:
    """Sparse Bayesian learning pixel by pixel in Python, as one would write it down."""
    Phi = dictionaries.lighting(lights)
    n, q = Phi.shape
    normals = np.empty((len(readings), 3))
    for row, o in enumerate(readings):
        y, gamma, before = Phi @ o / np.abs(o).max(), np.ones(q), np.zeros(3)
        for _ in range(100):
            S = np.linalg.inv(Phi * gamma @ Phi.T + 1e-6 * np.eye(n))
            gamma = np.abs(gamma * (Phi.T @ S @ y)) / np.sqrt(np.einsum("ai,ab,bi->i", Phi, S, Phi))
            weight = 1 / (gamma + 1e-6)
            normals[row] = np.linalg.solve(lights.T * weight @ lights, lights.T * weight @ o)
            if np.abs(normals[row] - before).sum() <= 1e-4 * np.abs(normals[row]).sum():
                break
            before = normals[row].copy()
    return normals


def inside_kernel(scene: Scene) -> float:
    """Seconds per pixel of the batched method."""
    runs = [timed(lambda: stereo.estimate_normals(scene, "sbl"))[1] for _ in range(5)]
    return float(np.median(runs)) / len(scene.readings)


def ball_scene(size: int, q: int) -> Scene:
    """A glossy ball with a blocked cone of directions: as many pixels and outliers as a real object has."""
    y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]
    inside = x**2 + y**2 < 0.7
    n = np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))])
    L = stereo.hemisphere_lights(q, rng=0)
    H = L + np.array([0, 0, 1])
    H /= np.linalg.norm(H, axis=1, keepdims=True)
    images = 0.5 * np.maximum(np.einsum("hwi,qi->qhw", n, L), 0)
    images += 0.4 * np.maximum(np.einsum("hwi,qi->qhw", n, H), 0) ** 60
    images[np.einsum("hwi,qi->qhw", n[:, ::-1], L) > 0.95] = 0
    return stereo.make_scene(np.minimum(images, 1), L, mask=inside, normals=n)


def write_folder(scene: Scene, folder: Path) -> Path:
    folder.mkdir()
    for i, column in enumerate(scene.readings.T):
        write_png(np.rint(scene.picture(column) * 65535).astype(np.uint16), folder / f"{i:03}.png")
    write_png(np.where(scene.mask, 255, 0).astype(np.uint8), folder / "mask.png")
    np.savetxt(folder / "lights.txt", scene.lights)
    return folder


def warm(scene: Scene) -> None:
    """Compile and load everything before anything is timed."""
    for method in METHODS:
        stereo.estimate_normals(scene.select(range(6)), method)


def interleaved(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of every run, taken in turns so that a busy machine troubles all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(timed(run)[1])
    return {name: float(np.median(values)) for name, values in seconds.items()}


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    value = run()
    return value, time.perf_counter() - begun


def data_folder() -> Path | None:
    named = Path(os.environ.get("MAXSPARSE_DATA", "data"))
    return named if named.is_dir() else None


def main() -> None:
    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "bunny": bunny,
        "materials": materials,
        "real": real,
        "unknown": unknown,
        "rig": rig,
        "speed": speed,
        "memory": memory,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="which parts to run; all by default")
    parser.add_argument(
        "--methods", nargs="*", default=[], help="with bunny, real: measure these again, keep the others"
    )
    given = parser.parse_args()
    chosen = given.parts or list(parts)
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for name in chosen:
        if name in ("real", "unknown") and data_folder() is None:
            print(f"{name}: the photographs are not here, figures stay as they are; set MAXSPARSE_DATA")
            continue
        results[name] = parts[name](given.methods) if name in ("bunny", "real") else parts[name]()
        results["machine"] = describe(("maxsparse", "numpy", "numba", "torch"))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"Wrote {RESULTS.relative_to(ROOT)} (this process peaked at {peak:.2f} GB)")


if __name__ == "__main__":
    main()
