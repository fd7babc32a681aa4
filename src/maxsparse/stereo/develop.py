"""Photographs of a folder, one by one: linear, without the dark frame, and the exposures that they state."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse.stereo.capture import CaptureWarning, exposures
from maxsparse.stereo.images import SUFFIXES, read_image
from maxsparse.stereo.scene import LUMA, to_float

__all__ = ["dark_frame", "developed", "grey", "linear", "stated_exposures"]

DARK = re.compile(r"(^|[._-])dark([._-]|$)", re.I)


def developed(paths: Sequence[Path], size: Sequence[int], dark: Any, gamma: float) -> Iterator[NDArray[Any]]:
    """Read photographs one by one, linear and without the dark frame."""
    for path in paths:
        image = read_image(path)
        if image.shape[:2] != tuple(size):
            raise ValueError(
                f"image {path.name!r} is {image.shape[0]}×{image.shape[1]}, but {paths[0].name!r} is "
                f"{size[0]}×{size[1]}; all must have one size"
            )
        picture = linear(to_float(image, path.name), gamma)
        if dark is not None and picture.ndim != dark.ndim:
            raise ValueError(f"the dark frame and {path.name!r} must both be in colour or both be grey")
        yield picture if dark is None else picture - dark


def dark_frame(folder: Path, size: Sequence[int], gamma: float) -> NDArray[Any] | None:
    """Return the image named dark in a folder, linear, if there is one."""
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and DARK.search(p.stem))
    if not found:
        return None
    image = read_image(found[0])
    if image.shape[:2] != tuple(size):
        raise ValueError(
            f"the dark frame {found[0].name!r} is {image.shape[:2]}, but the photographs are {tuple(size)}"
        )
    return np.asarray(linear(to_float(image, found[0].name), gamma))


def stated_exposures(paths: Sequence[Path]) -> NDArray[np.float64] | None:
    """Return the exposures that the photographs state, if they differ."""
    found = exposures(paths)
    if found is None or found.max() < 1.02 * found.min():
        return None
    warnings.warn(
        f"the exposures of the photographs differ by a factor of {found.max() / found.min():.3g}; readings are divided "
        "by them, as their EXIF data state them",
        CaptureWarning,
        stacklevel=4,
    )
    return found


def grey(picture: NDArray[Any]) -> NDArray[Any]:
    """Return the luma (H, W) of a picture in colour, or the picture."""
    return picture @ LUMA if picture.ndim == 3 else picture


def linear(values: Any, gamma: float) -> Any:
    """Return stored values as linear ones."""
    return values if gamma == 1.0 else np.maximum(values, 0.0) ** gamma
