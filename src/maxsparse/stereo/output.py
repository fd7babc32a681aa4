"""Output files of a scene: arrays, 16-bit pictures, depth, meshes, a page to relight the object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.extras import needs
from maxsparse._core.validation import FloatArray, check_choice
from maxsparse.stereo.estimate import NormalMap
from maxsparse.stereo.integrate import check_camera, check_distance, integrate
from maxsparse.stereo.mesh import FORMATS, make_mesh, write_mesh
from maxsparse.stereo.self_calibration.estimate import LightEstimate
from maxsparse.stereo.viewer import write_viewer

__all__ = ["check_request", "normals_picture", "write_all", "write_png"]

WHITE = 0.99  # quantile of the albedo that is shown as white
ERROR_RANGE = 30.0  # degrees shown as the brightest colour of the error picture


def write_all(
    result: NormalMap,
    folder: str | os.PathLike[str],
    *,
    K: ArrayLike | None = None,
    meshes: Sequence[str] = FORMATS,
    viewer: bool = True,
    discontinuities: int = 5,
    distance: float | None = None,
) -> list[Path]:
    """Write all results of a scene into a folder.

    Parameters
    ----------
    result : NormalMap
    folder : str or path
        Created if it does not exist; files of the same names are replaced.
    K : array-like of shape (3, 3) or None, default=None
        Camera matrix, for perspective depth.
    meshes : sequence of str, default=("ply", "obj", "glb")
        Formats of the mesh.
    viewer : bool, default=True
        Write viewer.html.
    discontinuities : int, default=5
        See :func:`integrate`.
    distance : float or None, default=None
        Distance of the object from the camera in millimetres, which depth and meshes are then in; needs `K`.

    Returns
    -------
    paths : list of path
        normals.npy, normals.png (16 bits, (n + 1)/2), confidence.npy/.png, albedo.npy/.png (16 bits, white is the 99th
        percentile), depth.npy, the meshes and viewer.html; error.npy/.png if the true normals are known; lights.txt and
        intensities.txt if lights were estimated.
    """
    target = check_request(folder, K=K, meshes=meshes, distance=distance)
    options = {"confidence": result.confidence, "discontinuities": discontinuities, "distance": distance}
    depth = integrate(result.normals, result.mask, K=K, **options)  # type: ignore[arg-type]
    arrays = {"normals": result.normals, "confidence": result.confidence, "albedo": result.albedo, "depth": depth}
    if result.error is not None:
        arrays["error"] = result.error
    pictures: dict[str, NDArray[Any]] = {
        "normals": normals_picture(result.normals),
        "confidence": _sixteen_bits(result.confidence),
        "albedo": _sixteen_bits(result.colour / _bright(result.colour[result.mask])),
    }
    if result.error is not None:
        pictures["error"] = error_picture(result.error)
    written = []
    for name, array in arrays.items():
        written.append(target / f"{name}.npy")
        with atomic_write(written[-1]) as stream:
            np.save(stream, array.astype(np.float32))
    for name, picture in pictures.items():
        written.append(target / f"{name}.png")
        write_png(picture, written[-1])
    if result.light_estimate is not None:
        written += _write_lights(result.light_estimate, target)
    if meshes:
        mesh = make_mesh(depth, result.normals, colour=result.colour, K=K)
    for kind in meshes:
        written.append(target / f"mesh.{kind}")
        write_mesh(mesh, written[-1])
    if viewer:
        written.append(target / "viewer.html")
        write_viewer(result, depth, written[-1], K=K, unit=None if distance is None else "mm")
    return written


def check_request(
    folder: str | os.PathLike[str],
    *,
    K: ArrayLike | None = None,
    meshes: Sequence[str] = FORMATS,
    distance: float | None = None,
) -> Path:
    """Check, before long computations, that :func:`write_all` will succeed; create the folder and return it."""
    for kind in meshes:
        check_choice(kind, "a mesh's format", FORMATS)
    if K is not None:
        check_camera(K)
    check_distance(distance, K)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=target):  # raises an error if the folder is not writable
        pass
    return target


def _write_lights(estimate: LightEstimate, folder: Path) -> list[Path]:
    """Write estimated lights as the files that :func:`maxsparse.stereo.load` reads."""
    rows = "".join(f"{x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in estimate.lights)
    note = f"# estimated, expected error {estimate.error.mean():.1f} degrees: x right, y up, z to the camera\n"
    texts = {"lights.txt": note + rows, "intensities.txt": "".join(f"{e:.6f}\n" for e in estimate.intensities)}
    for name, text in texts.items():
        with atomic_write(folder / name) as stream:
            stream.write(text.encode())
    return [folder / name for name in texts]


def write_png(picture: NDArray[Any], path: str | os.PathLike[str]) -> None:
    """Write an 8- or 16-bit picture, (H, W) or (H, W, 3) in RGB.

    Parameters
    ----------
    picture : ndarray of uint8 or uint16
    path : str or path
    """
    with needs("writing pictures"):
        import cv2
    stored = picture[..., ::-1] if picture.ndim == 3 else picture
    done, data = cv2.imencode(".png", np.ascontiguousarray(stored))
    if not done:
        raise ValueError(f"cannot encode a picture of shape {picture.shape} and dtype {picture.dtype}")
    with atomic_write(path) as stream:
        stream.write(data.tobytes())


def normals_picture(normals: FloatArray) -> NDArray[np.uint16]:
    """Encode unit normals (H, W, 3) as 16-bit colour, (n + 1)/2; black where there is none."""
    known = np.linalg.norm(normals, axis=2, keepdims=True) > 0.5
    return np.where(known, np.rint((normals + 1) / 2 * 65535), 0).astype(np.uint16)


def error_picture(error: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Colour angular errors (H, W) from dark (0°) to bright (30° and more); black where there is none."""
    from matplotlib import colormaps

    coloured = colormaps["inferno"](np.nan_to_num(error) / ERROR_RANGE, bytes=True)[..., :3]
    return np.where(np.isfinite(error)[..., None], coloured, 0).astype(np.uint8)


def _bright(colour: FloatArray) -> float:
    """Return the albedo shown as white: one pixel in a highlight must not darken all others."""
    return max(float(np.quantile(colour.max(axis=1), WHITE)), 1e-12)


def _sixteen_bits(values: FloatArray) -> NDArray[np.uint16]:
    return np.rint(np.clip(values, 0.0, 1.0) * 65535).astype(np.uint16)
