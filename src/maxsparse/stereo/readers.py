"""Read a scene from disk: DiLiGenT folders, plain folders of photographs, stacked arrays."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.validation import check_number
from maxsparse.files import read_array
from maxsparse.stereo.capture import Alignment, CaptureWarning, automatic_mask
from maxsparse.stereo.develop import dark_frame, developed, grey, linear, stated_exposures
from maxsparse.stereo.images import SUFFIXES, read_image
from maxsparse.stereo.scene import (
    Collector,
    Scene,
    check_intensities,
    check_lights,
    make_scene,
    to_float,
)

__all__ = ["load", "photographs", "read_lights"]

PathLike = str | os.PathLike[str]
LIGHT_FILES = ("light_directions.txt", "lights.txt", "lights.npy", "lights.csv", "light_directions.npy")
INTENSITY_FILES = ("light_intensities.txt", "intensities.txt", "light_intensities.npy", "intensities.npy")
UNKNOWN = "unknown"  # instead of a file of lights or intensities
STACK_FILES = ("images.npy", "images.npz")
# Files in a folder of photographs that are not photographs.
NOT_PHOTOGRAPHS = re.compile(
    r"(^|[._-])(mask|dark|normals?|normal_gt|normal_map|albedo|depth|confidence|error)([._-]|$)", re.I
)


def load(
    path: PathLike,
    *,
    lights: PathLike | ArrayLike | None = None,
    intensities: PathLike | ArrayLike | None = None,
    mask: PathLike | ArrayLike | None = None,
    gamma: float = 1.0,
    key: str | None = None,
) -> Scene:
    """Load a scene from a folder or a file.

    Parameters
    ----------
    path : str or path
        A folder in DiLiGenT's layout (filenames.txt, light_directions.txt, light_intensities.txt, mask.png,
        Normal_gt.mat); a folder of photographs with ``lights.txt`` or ``lights.npy``, taken in the order of their
        numbers; a folder with ``images.npy``; or a file .npy or .npz. A .npz file holds ``I`` (or ``images``), ``L``
        (or ``lights``), and optionally ``Lint``, ``mask`` and ``normal``.
    lights : path or array-like of shape (q, 3) or "unknown", default=None
        Directions to the lights, x right, y up, z to the camera. None: the file next to the photographs. "unknown": no
        file is read, for ``estimate_normals(scene, lights="estimate")``.
    intensities : path or array-like of shape (q,) or (q, 3) or "unknown", default=None
        Brightness of the lights. None: the file next to the photographs, or 1. "unknown": 1, also if there is a file.
    mask : path or array-like of shape (H, W) or "auto", default=None
        Above half of its largest value on the object. None: the image named mask next to the photographs, or every
        pixel. "auto": what stands out from a dark background (:func:`maxsparse.stereo.capture.automatic_mask`).
    gamma : float, default=1.0
        Exponent that makes the stored values linear; 2.2 for JPEGs from a camera.
    key : str or None, default=None
        Name of the images in a .npz file with other names.

    Returns
    -------
    scene : Scene

    Warns
    -----
    CaptureWarning
        If the photographs of a folder have different exposures, or the camera moved between them.

    Notes
    -----
    An image named dark, a photograph with the lens covered, is subtracted from the photographs. If their EXIF data hold
    different exposures, readings are divided by them, unless intensities are given.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import maxsparse as ms
    >>> folder = tempfile.mkdtemp()
    >>> np.save(os.path.join(folder, "images.npy"), np.full((6, 4, 4), 0.5))
    >>> np.save(os.path.join(folder, "lights.npy"), ms.stereo.hemisphere_lights(6, rng=0))
    >>> ms.stereo.load(folder)
    Scene(4×4, 16 pixels in the mask, 6 lights)
    """
    source = Path(path)
    gamma = check_number(gamma, "gamma", low=0.1, high=10.0)
    given = {"lights": lights, "intensities": intensities, "mask": mask}
    if source.is_dir():
        stacks = [source / name for name in STACK_FILES if (source / name).is_file()]
        return _load_stack(stacks[0], key, gamma, given) if stacks else _load_folder(source, gamma, given)
    if not source.exists():
        raise FileNotFoundError(f"{str(source)!r} does not exist; give a folder of photographs, or a .npy or .npz file")
    if source.suffix.lower() not in (".npy", ".npz"):
        raise ValueError(f"{str(source)!r} is neither a folder nor a .npy or .npz file")
    return _load_stack(source, key, gamma, given)


def read_lights(path: PathLike) -> NDArray[np.float64]:
    """Read numbers in rows from a text, .csv or .npy file; a first line with the number of rows is skipped.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    rows : ndarray of shape (q, c)
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"{str(source)!r} is missing")
    if source.suffix.lower() in (".npy", ".npz", ".mat"):
        return np.atleast_2d(read_array(source)).astype(np.float64)
    rows = []
    for number, line in enumerate(source.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            rows.append([float(word) for word in words])
        except ValueError:
            raise ValueError(f"{str(source)!r}, line {number}: {line.strip()[:60]!r} is not a row of numbers") from None
    if len(rows) > 1 and len(rows[0]) == 1 and len(rows[1]) > 1 and rows[0][0] == len(rows) - 1:
        rows = rows[1:]
    if not rows or len({len(row) for row in rows}) != 1:
        raise ValueError(f"{str(source)!r} holds {len(rows)} rows of numbers; it needs at least one, all equally long")
    values = np.array(rows)
    if not np.isfinite(values).all():
        raise ValueError(f"{str(source)!r} holds NaN or Inf")
    return values


def photographs(folder: PathLike) -> list[Path]:
    """List the photographs of a folder, without masks and results.

    Parameters
    ----------
    folder : str or path

    Returns
    -------
    paths : list of path
        As ``filenames.txt`` lists them, else in the order of the numbers in their names: 2 comes before 10.
    """
    source = Path(folder)
    if not source.is_dir():
        raise FileNotFoundError(f"{str(source)!r} is not a folder")
    listing = source / "filenames.txt"
    if listing.is_file():
        names = [line.strip() for line in listing.read_text(encoding="utf-8").splitlines() if line.strip()]
        outside = [name for name in names if Path(name).name != name]
        if outside:
            raise ValueError(f"{str(listing)!r} lists {outside[0]!r}; only files in its own folder are read")
        return [source / name for name in names]
    found = [p for p in source.iterdir() if p.suffix.lower() in SUFFIXES and not NOT_PHOTOGRAPHS.search(p.stem)]
    return sorted(found, key=lambda p: [int(s) if s.isdigit() else s for s in re.split(r"(\d+)", p.name)])


def _load_folder(folder: Path, gamma: float, given: dict[str, Any]) -> Scene:
    paths = photographs(folder)
    if not paths:
        raise ValueError(f"{str(folder)!r} holds no photographs; supported formats are {', '.join(SUFFIXES)}")
    directions = check_lights(_needed_lights(given["lights"], folder), len(paths))
    intensities = _rows(given["intensities"], folder, INTENSITY_FILES)
    brightness = check_intensities(stated_exposures(paths) if intensities is None else intensities, len(paths))
    size = read_image(paths[0]).shape[:2]
    dark = dark_frame(folder, size, gamma)
    if isinstance(given["mask"], str | os.PathLike) and str(given["mask"]) == "auto":
        region = automatic_mask(lambda: map(grey, developed(paths, size, dark, gamma)), (size[0], size[1]))
    else:
        region = find_mask(folder, given["mask"], size)
    collector, alignment, channels = Collector(int(region.sum()), len(paths)), Alignment(), 1
    for i, picture in enumerate(developed(paths, size, dark, gamma)):
        values = picture[region].reshape(int(region.sum()), -1)
        channels = max(channels, values.shape[1])
        collector.add(i, values, brightness[i])
        alignment.add(grey(picture))
    names = tuple(path.name for path in paths)
    shaken = alignment.report(names)
    if shaken is not None:
        warnings.warn(shaken, CaptureWarning, stacklevel=3)
    truth = folder / "Normal_gt.mat"
    normals = None
    if truth.is_file():
        normals = read_array(truth, "Normal_gt").astype(np.float64)
        if normals.shape != (*region.shape, 3):
            raise ValueError(f"{str(truth)!r} has shape {normals.shape}, but the photographs are {region.shape}")
        normals = np.where(region[..., None], normals, 0.0)
    return Scene(collector.readings, directions, region, normals, collector.chroma(channels), names)


def _load_stack(path: Path, key: str | None, gamma: float, given: dict[str, Any]) -> Scene:
    held = _npz_names(path) if path.suffix.lower() == ".npz" else []

    def stored(*names: str) -> NDArray[Any] | None:
        found = [name for name in names if name in held]
        return read_array(path, found[0]) if found else None

    if path.suffix.lower() == ".npy":
        images: NDArray[Any] | None = read_array(path, key)
    else:
        images = read_array(path, key) if key is not None else stored("I", "images")
    if images is None:
        raise ValueError(f"{str(path)!r} has no array I or images; select one of {', '.join(held)} with key=")
    lights, intensities = stored("L", "lights"), stored("Lint", "intensities")
    if given["lights"] is not None or lights is None:
        lights = _needed_lights(given["lights"], path.parent)
    if _unknown(given["intensities"]):
        intensities = None
    elif given["intensities"] is not None or intensities is None:
        intensities = _rows(given["intensities"], path.parent, INTENSITY_FILES)
    mask = stored("mask")
    if given["mask"] is not None or (mask is None and images.ndim > 2):
        size = images.shape[1:3] if mask is None else mask.shape
        mask = find_mask(path.parent, given["mask"], (size[0], size[1]))
    if gamma != 1.0:
        images = linear(to_float(images, path.name), gamma)
    return make_scene(images, lights, mask=mask, intensities=intensities, normals=stored("normal", "normals"))


def find_mask(folder: Path, given: PathLike | ArrayLike | None, size: Sequence[int]) -> NDArray[np.bool_]:
    """Return the mask (H, W): the given one, or the image named mask in the folder, or every pixel."""
    if given is None:
        found = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and _is_mask(p))
        if not found:
            return np.ones((size[0], size[1]), dtype=bool)
        given = found[0]
    name = str(given) if isinstance(given, str | os.PathLike) else "mask"
    stored = _read_mask(Path(given)) if isinstance(given, str | os.PathLike) else np.asarray(given)
    region = stored > 0.5 * stored.max(initial=0) if stored.dtype != bool else stored
    region = region.any(axis=2) if region.ndim == 3 else region
    if region.shape != tuple(size[:2]):
        raise ValueError(f"{name!r} is {region.shape}, but the photographs are {tuple(size[:2])}")
    if not region.any():
        raise ValueError(f"{name!r} is all black: no pixel is selected")
    return np.ascontiguousarray(region)


def _is_mask(path: Path) -> bool:
    return re.search(r"(^|[._-])mask([._-]|$)", path.stem, re.I) is not None


def _read_mask(path: Path) -> NDArray[Any]:
    return read_array(path) if path.suffix.lower() in (".npy", ".npz") else read_image(path)


def _rows(given: PathLike | ArrayLike | None, folder: Path, names: Sequence[str]) -> NDArray[Any] | None:
    """Return rows of numbers: the given ones, or those of the first existing file."""
    if _unknown(given):
        return None
    if isinstance(given, str | os.PathLike):
        return read_lights(given)
    if given is not None:
        return np.asarray(given)
    for name in names:
        if (folder / name).is_file():
            return read_lights(folder / name)
    return None


def _unknown(given: PathLike | ArrayLike | None) -> bool:
    return isinstance(given, str | os.PathLike) and str(given) == UNKNOWN


def _needed_lights(given: PathLike | ArrayLike | None, folder: Path) -> NDArray[Any] | None:
    rows = _rows(given, folder, LIGHT_FILES)
    if rows is None and not _unknown(given):
        raise FileNotFoundError(
            f"{str(folder)!r} holds no light directions ({', '.join(LIGHT_FILES[:3])}); write them there, pass "
            "lights= (--lights), calibrate them from a chrome ball with `maxsparse stereo calibrate`, or estimate them "
            "from the photographs with lights='unknown' (--lights unknown)"
        )
    return rows


def _npz_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise ValueError(f"{str(path)!r} is damaged or truncated: {error}") from error
