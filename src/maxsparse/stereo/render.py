"""Synthetic photographs: a mesh rendered with Mitsuba 3 under directional lights, with true normals."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.extras import needs
from maxsparse._core.progress import track
from maxsparse._core.validation import RandomState, check_choice, check_integer, check_number, check_rng
from maxsparse.stereo.scene import Scene, check_lights, make_scene

__all__ = ["bunny_path", "render"]

MATERIALS = ("principled", "roughplastic", "diffuse", "metal")
EXTENT = 1.1  # side of the picture in units of the object's longest side
WHOLE = 0.99  # length of the mean normal of a pixel that lies completely on the object


def render(
    lights: ArrayLike,
    *,
    mesh: str | os.PathLike[str] | None = None,
    size: int = 256,
    material: str = "principled",
    base_colour: float = 0.5,
    roughness: float = 0.3,
    specular: float = 0.8,
    samples: int = 16,
    bounces: int = 0,
    rng: RandomState = 0,
    variant: str = "scalar_rgb",
    progress: bool = False,
) -> Scene:
    """Render a mesh under directional lights, with cast shadows and highlights.

    Parameters
    ----------
    lights : array-like of shape (q, 3)
        Directions to the lights.
    mesh : path or None, default=None
        A .ply, .obj, .stl or .glb file; None is the Stanford Bunny. It is seen along −z with y up.
    size : int, default=256
        Side of the square picture in pixels.
    material : str, default="principled"
        "principled" (Disney's diffuse and specular model), "roughplastic", "diffuse" or "metal".
    base_colour : float, default=0.5
        Diffuse reflectance.
    roughness : float, default=0.3
        Of the highlights.
    specular : float, default=0.8
        Strength of the highlights of "principled".
    samples : int, default=16
        Paths per pixel.
    bounces : int, default=0
        Number of interreflections; 0 is direct light only.
    rng : int, numpy.random.Generator or None, default=0
    variant : str, default="scalar_rgb"
        Mitsuba's variant. "llvm_ad_rgb" is several times faster where a recent LLVM is installed; an old one ends the
        process instead of raising an error, so it is not the default.
    progress : bool, default=False

    Returns
    -------
    scene : Scene
        With true normals; readings are linear floats.

    Notes
    -----
    Needs ``pip install 'maxsparse[reproduce]'``. A picture of 256×256 takes about a second.

    References
    ----------
    .. [1] W. Jakob et al., "Mitsuba 3 renderer", 2022.
    """
    directions = check_lights(lights, len(np.asarray(lights)))
    size = check_integer(size, "size", low=8, high=4096)
    samples = check_integer(samples, "samples", low=1)
    bounces = check_integer(bounces, "bounces", low=0)
    bsdf = _material(
        check_choice(material, "material", MATERIALS),
        check_number(base_colour, "base_colour", low=0.0, high=1.0),
        check_number(roughness, "roughness", low=0.01, high=1.0),
        check_number(specular, "specular", low=0.0, high=1.0),
    )
    seeds = check_rng(rng).integers(0, 2**31 - 1, size=len(directions) + 1)
    mi = _mitsuba(variant)
    with _readable(Path(mesh) if mesh is not None else bunny_path()) as path:
        shape = mi.load_dict({"type": path.suffix[1:], "filename": str(path), "bsdf": bsdf})
        sensor = _sensor(mi, shape.bbox(), size, samples)
        normals, mask = _true_normals(mi, shape, sensor, int(seeds[-1]))
        integrator = {"type": "path", "max_depth": 2 + bounces} if bounces else {"type": "direct"}
        images = np.empty((len(directions), int(mask.sum())), dtype=np.float32)
        for i in track(range(len(directions)), "rendering", progress):
            lamp = {"type": "directional", "direction": (-directions[i]).tolist(), "irradiance": np.pi}
            scene = mi.load_dict(
                {"type": "scene", "integrator": integrator, "sensor": sensor, "shape": shape, "lamp": lamp}
            )
            picture = np.asarray(mi.render(scene, spp=samples, seed=int(seeds[i])))
            images[i] = picture[..., :3].mean(axis=2)[mask]
    return make_scene(images, directions, mask=mask, normals=normals)


def bunny_path() -> Path:
    """Return the Stanford Bunny from the package pymeshfix."""
    with needs("the Stanford Bunny"):
        path = Path(str(resources.files("pymeshfix") / "examples" / "StanfordBunny.ply"))
    if not path.is_file():
        raise FileNotFoundError(f"this version of pymeshfix has no {str(path)!r}; give another mesh=")
    return path


def _mitsuba(variant: str) -> Any:
    with needs("rendering"):
        import mitsuba as mi
    if variant not in mi.variants():
        raise ValueError(f"variant must be one of {', '.join(mi.variants())}, got {variant!r}")
    mi.set_variant(variant)
    return mi


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """Yield a file that Mitsuba can read: a PLY header without ``obj_info``, other formats converted to PLY."""
    if not path.is_file():
        raise FileNotFoundError(f"mesh {str(path)!r} does not exist")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "mesh.ply"
        if path.suffix.lower() == ".ply":
            data = path.read_bytes()
            end = data.find(b"end_header")
            if end < 0:
                raise ValueError(f"{str(path)!r} is not a PLY file: its header does not end")
            kept = [line for line in data[:end].split(b"\n") if not line.startswith(b"obj_info")]
            copy.write_bytes(b"\n".join(kept) + data[end:])
        else:
            with needs(f"reading {path.suffix} files"):
                import trimesh
            trimesh.load(path, force="mesh").export(copy)
        yield copy


def _material(kind: str, base_colour: float, roughness: float, specular: float) -> dict[str, Any]:
    colour = {"type": "rgb", "value": [base_colour] * 3}
    inner: dict[str, Any]
    if kind == "principled":
        inner = {"type": "principled", "base_color": colour, "roughness": roughness, "specular": specular}
    elif kind == "roughplastic":
        inner = {"type": "roughplastic", "diffuse_reflectance": colour, "alpha": roughness**2}
    elif kind == "metal":
        inner = {"type": "principled", "base_color": colour, "roughness": roughness, "metallic": 1.0}
    else:
        inner = {"type": "diffuse", "reflectance": colour}
    return {"type": "twosided", "bsdf": inner}


def _sensor(mi: Any, box: Any, size: int, samples: int) -> Any:
    """Build an orthographic camera that looks along −z at the middle of the box; x right, y up."""
    low, high = np.asarray(box.min), np.asarray(box.max)
    middle, side = (low + high) / 2, float((high - low).max())
    T = mi.ScalarTransform4f
    pose = T().look_at(origin=(middle + np.array([0, 0, 2 * side])).tolist(), target=middle.tolist(), up=[0, 1, 0])
    half = EXTENT * side / 2
    return mi.load_dict(
        {
            "type": "orthographic",
            "to_world": pose @ T().scale([half, half, 1.0]),
            "film": {"type": "hdrfilm", "width": size, "height": size, "rfilter": {"type": "box"}},
            "sampler": {"type": "independent", "sample_count": samples},
        }
    )


def _true_normals(mi: Any, shape: Any, sensor: Any, seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the mean shading normal of every pixel, (H, W, 3), and the pixels that lie completely on the object.

    Normals point to the camera, whichever way the triangles are wound: surfaces are seen and lit from both sides.
    """
    integrator = {"type": "aov", "aovs": "nn:sh_normal"}
    scene = mi.load_dict({"type": "scene", "integrator": integrator, "sensor": sensor, "shape": shape})
    normals = np.asarray(mi.render(scene, seed=seed), dtype=np.float64)[..., -3:]
    length = np.linalg.norm(normals, axis=2)
    mask = length > WHOLE
    if not mask.any():
        raise ValueError("the mesh is not visible in the picture")
    normals *= np.where(normals[..., 2:] < 0, -1.0, 1.0)
    return np.where(mask[..., None], normals / np.maximum(length, 1e-9)[..., None], 0.0), mask
