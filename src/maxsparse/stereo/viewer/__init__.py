"""``viewer.html``: one self-contained page to relight, rotate and inspect the object."""

from __future__ import annotations

import base64
import html
import json
import os
import zlib
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.validation import FloatArray
from maxsparse.stereo.estimate import NormalMap
from maxsparse.stereo.mesh import Mesh, make_mesh

__all__ = ["write_viewer"]

MAX_VERTICES = 250_000  # keeps the page at a few megabytes
ERROR_RANGE = 30.0  # degrees shown as the brightest colour


def write_viewer(
    result: NormalMap,
    depth: FloatArray,
    path: str | os.PathLike[str],
    *,
    K: ArrayLike | None = None,
    title: str = "maxsparse: photometric stereo",
    unit: str | None = None,
) -> None:
    """Write a page that works offline and without a server.

    Parameters
    ----------
    result : NormalMap
    depth : ndarray of shape (H, W)
        From :func:`maxsparse.stereo.integrate`.
    path : str or path
        File to write.
    K : array-like of shape (3, 3) or None, default=None
        Camera matrix if the depth is perspective.
    title : str
        Heading of the page.
    unit : str or None, default=None
        Unit of the depth, for the profile: "mm" if its distance was given. None: pixels if it is orthographic.

    Notes
    -----
    The page holds every vertex as 16-bit integers, compressed; it draws with WebGL 2. Light is direct, without cast
    shadows. It also shows how badly every photograph fits, the lights on a sphere, and a profile through the depth.
    """
    mesh = make_mesh(depth, result.normals, colour=result.colour, K=K, max_vertices=MAX_VERTICES)
    H, W = depth.shape
    facts = [f"{result.method}", f"{len(result.scene.lights)} lights", f"{int(result.mask.sum()):,} pixels"]
    if result.mean_error is not None:
        facts.append(f"mean error {result.mean_error:.2f}°")
    data = {
        "width": W,
        "height": H,
        "vertices": len(mesh.vertices),
        "hasError": result.error is not None,
        "errorRange": ERROR_RANGE,
        "half": _box(mesh)[1],
        "unit": unit if unit is not None else "px" if K is None else "",
        "photographs": _photographs(result),
        "arrays": _arrays(mesh, result),
    }
    parts = {name: (resources.files(__name__) / name).read_text(encoding="utf-8") for name in _FILES}
    page = parts["page.html"]
    # A closing tag anywhere inside a script would end it.
    fill = {
        "TITLE": html.escape(title),
        "FACTS": html.escape(" · ".join(facts)),
        "STYLE": parts["page.css"],
        "SCRIPT": parts["page.js"],
        "DATA": json.dumps(data).replace("</", "<\\/"),
    }
    for name, text in fill.items():
        page = page.replace(f"<!--{name}-->", text)
    with atomic_write(path) as stream:
        stream.write(page.encode("utf-8"))


_FILES = ("page.html", "page.css", "page.js")


def _arrays(mesh: Mesh, result: NormalMap) -> dict[str, str]:
    """Return every array the page needs as compressed base64 text."""
    r, c = mesh.pixels.T
    middle, half = _box(mesh)
    place = (mesh.vertices - middle) / half
    error = np.zeros(len(r)) if result.error is None else np.nan_to_num(result.error[r, c], nan=ERROR_RANGE)
    return {
        "positions": _pack(np.rint(place * 32767).astype(np.int16)),
        "normals": _pack(np.rint(mesh.normals * 32767).astype(np.int16)),
        "colours": _pack(mesh.colours),
        "confidence": _pack(np.rint(255 * result.confidence[r, c]).astype(np.uint8)),
        "error": _pack(np.rint(255 * np.clip(error / ERROR_RANGE, 0, 1)).astype(np.uint8)),
        "faces": _pack(mesh.faces.astype(np.uint32)),
    }


def _box(mesh: Mesh) -> tuple[NDArray[np.float64], float]:
    """Return the middle of the mesh and half of its longest side."""
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    return (low + high) / 2, max(float((high - low).max()) / 2, 1e-12)


def _photographs(result: NormalMap) -> list[dict[str, Any]]:
    """Return name, light and residual of every photograph, and the light before it was estimated."""
    names = result.scene.names or tuple(f"photograph {i}" for i in range(len(result.scene.lights)))
    estimate = result.light_estimate
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        residual = float(result.residuals[i])
        row = {"name": name, "light": result.scene.lights[i].round(5).tolist()}
        row["residual"] = round(residual, 5) if np.isfinite(residual) else 0.0
        if estimate is not None:
            row["error"] = round(float(estimate.error[i]), 2)
            row["before"] = None if estimate.before is None else estimate.before[i].round(5).tolist()
        rows.append(row)
    return rows


def _pack(array: NDArray[Any]) -> str:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
