"""A triangle mesh from depth, and its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.extras import needs
from maxsparse._core.validation import FloatArray, check_choice
from maxsparse.stereo.integrate import check_camera

__all__ = ["Mesh", "make_mesh", "write_mesh"]

LINES = 50_000  # of a text file, written at once
FORMATS = ("ply", "obj", "glb")


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface: x right, y up, z towards the viewer; triangles are counter-clockwise seen from the camera.

    Attributes
    ----------
    vertices : ndarray of shape (V, 3)
    faces : ndarray of shape (F, 3), int
    normals : ndarray of shape (V, 3)
    colours : ndarray of shape (V, 3), uint8
    pixels : ndarray of shape (V, 2), int
        Row and column of the pixel of every vertex.
    texture : ndarray of shape (H, W, 3), uint8, or None
        The colours of all pixels, for .glb files.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]
    normals: NDArray[np.float64]
    colours: NDArray[np.uint8]
    pixels: NDArray[np.int64]
    texture: NDArray[np.uint8] | None = None


def make_mesh(
    depth: FloatArray,
    normals: FloatArray,
    *,
    colour: FloatArray | None = None,
    K: ArrayLike | None = None,
    max_vertices: int | None = None,
) -> Mesh:
    """Join neighbouring pixels to triangles.

    Parameters
    ----------
    depth : ndarray of shape (H, W)
        From :func:`integrate`; NaN where there is no surface.
    normals : ndarray of shape (H, W, 3)
    colour : ndarray of shape (H, W, 3) or None, default=None
        Linear colour, scaled so that the brightest 1 % is white. None is grey.
    K : array-like of shape (3, 3) or None, default=None
        Camera matrix if the depth is perspective.
    max_vertices : int or None, default=None
        Largest number of vertices; rows and columns are skipped evenly to reach it.

    Returns
    -------
    mesh : Mesh
        Orthographic: in pixels, with the origin in the centre of the picture. Perspective: in units of the depth,
        with the camera at the origin; in millimetres if the depth is.

    Examples
    --------
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> n = np.broadcast_to(np.array([0.0, 0.0, 1.0]), (3, 4, 3))
    >>> mesh = ms.stereo.make_mesh(ms.stereo.integrate(n), n)
    >>> mesh.vertices.shape, mesh.faces.shape
    ((12, 3), (12, 3))
    """
    H, W = depth.shape
    stride = 1
    if max_vertices is not None:
        stride = max(1, int(np.ceil(np.sqrt(np.isfinite(depth).sum() / max_vertices))))
    rows, columns = np.meshgrid(np.arange(0, H, stride), np.arange(0, W, stride), indexing="ij")
    z = depth[rows, columns]
    inside = np.isfinite(z)
    number = np.full(inside.shape, -1, dtype=np.int64)
    number[inside] = np.arange(inside.sum())
    r, c = rows[inside], columns[inside]
    if K is None:
        vertices = np.stack([c - (W - 1) / 2, (H - 1) / 2 - r, z[inside]], axis=1)
    else:
        matrix = check_camera(K)
        x, y = (c - matrix[0, 2]) / matrix[0, 0], (r - matrix[1, 2]) / matrix[1, 1]
        vertices = np.stack([x, -y, -np.ones(len(x))], axis=1) * z[inside][:, None]
    texture = None if colour is None else display(colour, depth)
    shade = np.full((len(r), 3), 200, dtype=np.uint8) if texture is None else texture[r, c]
    pixels = np.stack([r, c], axis=1)
    return Mesh(vertices, _triangles(number), normals[r, c].astype(np.float64), shade, pixels, texture)


def write_mesh(mesh: Mesh, path: str | os.PathLike[str]) -> None:
    """Write a mesh with its normals and colours; a .glb file holds the colours as a texture.

    Parameters
    ----------
    mesh : Mesh
    path : str or path
        The suffix sets the format: .ply, .obj or .glb.
    """
    kind = check_choice(Path(path).suffix.lower().lstrip("."), "the suffix of the mesh file", FORMATS)
    if kind == "obj":
        with atomic_write(path) as stream:
            _write_obj(mesh, stream)
        return
    with needs("writing a mesh"):
        import trimesh
    look: dict[str, Any] = {"vertex_colors": mesh.colours}
    if kind == "glb" and mesh.texture is not None:
        look = {"visual": _textured(mesh.texture, mesh.pixels)}
    body = trimesh.Trimesh(mesh.vertices, mesh.faces, vertex_normals=mesh.normals, process=False, **look)
    options: dict[str, Any] = {"glb": {"include_normals": True}, "ply": {"vertex_normal": True}}
    data: Any = body.export(file_type=kind, **options[kind])
    with atomic_write(path) as stream:
        stream.write(data)


def _write_obj(mesh: Mesh, stream: IO[bytes]) -> None:
    """Write lines of text in blocks: the text of a large mesh at once would take gigabytes."""
    coloured = np.concatenate([mesh.vertices, mesh.colours / 255.0], axis=1)
    tables: list[tuple[str, NDArray[Any]]] = [
        ("v %.8g %.8g %.8g %.4g %.4g %.4g\n", coloured),
        ("vn %.6g %.6g %.6g\n", mesh.normals),
        ("f %d//%d %d//%d %d//%d\n", np.repeat(mesh.faces + 1, 2, axis=1)),
    ]
    for line, rows in tables:
        for block in np.array_split(rows, max(1, len(rows) // LINES)):
            stream.write((line * len(block) % tuple(block.ravel().tolist())).encode())


def _textured(texture: NDArray[np.uint8], pixels: NDArray[np.int64]) -> Any:
    """Return trimesh's matt look of vertices at these pixels of a texture."""
    with needs("writing a texture"):
        from PIL import Image
        from trimesh.visual import TextureVisuals
        from trimesh.visual.material import PBRMaterial
    H, W = texture.shape[:2]
    places = np.stack([(pixels[:, 1] + 0.5) / W, 1.0 - (pixels[:, 0] + 0.5) / H], axis=1)
    material = PBRMaterial(baseColorTexture=Image.fromarray(texture), metallicFactor=0.0, roughnessFactor=1.0)
    return TextureVisuals(uv=places, material=material)


def display(colour: FloatArray, region: FloatArray) -> NDArray[np.uint8]:
    """Turn linear colour (H, W, 3) into 8-bit sRGB; the brightest 1 % where `region` is finite is white."""
    inside = np.isfinite(region) & (colour.max(axis=2) > 0)
    white = np.percentile(colour[inside].max(axis=1), 99) if inside.any() else 1.0
    linear = np.clip(colour / max(float(white), 1e-12), 0.0, 1.0)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    texture: NDArray[np.uint8] = np.rint(255 * encoded).astype(np.uint8)
    return texture


def _triangles(number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return two triangles per square of four pixels, one if only three exist; number is -1 outside."""
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]  # a b over c d
    found = []
    whole = (a >= 0) & (b >= 0) & (c >= 0) & (d >= 0)
    found += [np.stack([a[whole], c[whole], b[whole]], 1), np.stack([b[whole], c[whole], d[whole]], 1)]
    for corners, missing in (((a, c, b), d), ((b, c, d), a), ((a, c, d), b), ((a, d, b), c)):
        three = (missing < 0) & (corners[0] >= 0) & (corners[1] >= 0) & (corners[2] >= 0)
        found.append(np.stack([corner[three] for corner in corners], 1))
    return np.concatenate(found)
