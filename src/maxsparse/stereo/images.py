"""One photograph from a file: 8- and 16-bit PNG and TIFF, TGA, JPEG, BMP, floating-point HDR, EXR, PFM, camera raw."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.extras import needs
from maxsparse.stereo.captured_output import CapturedOutput

__all__ = ["RAW", "SUFFIXES", "read_image"]

PILLOW = (".tga", ".jpg", ".jpeg", ".bmp")  # it refuses truncated files; OpenCV fills a truncated JPEG with grey
OPENCV = (".png", ".tif", ".tiff", ".hdr", ".pfm")  # Pillow would reduce 16-bit colour to 8 bits
RAW = (".dng", ".nef", ".cr2", ".cr3", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw")
SUFFIXES = (*PILLOW, *OPENCV, ".exr", *RAW)
MOST_PIXELS = 2**27  # of one photograph; a file of a few bytes can declare any size


def read_image(path: Path) -> NDArray[Any]:
    """Read a photograph as it is stored.

    Parameters
    ----------
    path : path

    Returns
    -------
    image : ndarray of shape (H, W) or (H, W, 3)
        uint8, uint16 or float32; colour as RGB, a fourth channel dropped.
    """
    if not path.is_file():
        raise FileNotFoundError(f"image {str(path)!r} is missing")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"cannot read {str(path)!r}: unknown suffix {suffix!r}; use one of {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise ValueError(f"image {str(path)!r} is empty")
    reader = _read_opencv
    for suffixes, other in ((PILLOW, _read_pillow), ((".exr",), _read_exr), (RAW, _read_raw)):
        reader = other if suffix in suffixes else reader
    complaints = CapturedOutput()
    try:
        with complaints:
            image = reader(path)
    except ImportError:
        raise
    except MemoryError as error:
        raise ValueError(f"image {str(path)!r} needs more memory than there is") from error
    except Exception as error:  # decoders raise anything for a damaged file
        reason = complaints.reason.removeprefix(f"{path}: ") or error
        raise ValueError(f"image {str(path)!r} is damaged or truncated: {reason}") from error
    if image.ndim == 3 and image.shape[2] in (1, 2):  # grey, grey with alpha
        image = image[..., 0]
    return image[..., :3] if image.ndim == 3 else image


def _read_pillow(path: Path) -> NDArray[Any]:
    with needs(f"reading {path.suffix.lower()} files"):
        from PIL import Image
    with Image.open(path) as stored:
        _check_size(*stored.size)
        stored.load()
        return np.asarray(stored if stored.mode in ("L", "RGB") else stored.convert("RGB"))


def _read_opencv(path: Path) -> NDArray[Any]:
    # OpenCV reads this when it is first loaded.
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(MOST_PIXELS))
    with needs(f"reading {path.suffix.lower()} files"):
        import cv2
    set_log_level = cv2.setLogLevel if hasattr(cv2, "setLogLevel") else cv2.utils.logging.setLogLevel  # OpenCV 4, 5
    level = set_log_level(0)  # silent
    # Decoding from memory allows any characters in file names.
    try:
        image = cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    finally:
        set_log_level(level)
    if image is None:
        raise ValueError("it cannot be decoded")
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        raise ValueError(f"it holds {image.dtype}; 8 or 16 bits or floats are needed")
    if image.ndim == 3 and image.shape[2] >= 3:
        image = image[..., 2::-1]  # BGR(A) to RGB
    return np.ascontiguousarray(image)


def _read_exr(path: Path) -> NDArray[Any]:
    with needs(f"reading {path.suffix.lower()} files"):
        import OpenEXR
    with OpenEXR.File(str(path), header_only=True) as stored:
        low, high = stored.header()["dataWindow"]
        _check_size(*(int(last) - int(first) + 1 for first, last in zip(low, high, strict=True)))
    with OpenEXR.File(str(path)) as stored:
        channels = {name: np.asarray(channel.pixels) for name, channel in stored.channels().items()}
    for name in ("RGB", "RGBA"):
        if name in channels:
            return channels[name][..., :3].astype(np.float32)
    if {"R", "G", "B"} <= channels.keys():
        return np.stack([channels[name] for name in "RGB"], axis=-1).astype(np.float32)
    if len(channels) != 1 and "Y" not in channels:
        raise ValueError(f"it has channels {', '.join(channels)}; RGB or one channel is needed")
    return channels["Y" if "Y" in channels else next(iter(channels))].astype(np.float32)


def _read_raw(path: Path) -> NDArray[Any]:
    """Develop a raw file without any curve: linear, 16 bits, the camera's daylight balance for all photographs."""
    with needs(f"reading {path.suffix.lower()} files"):
        import rawpy
    with rawpy.imread(str(path)) as stored:
        _check_size(stored.sizes.width, stored.sizes.height)
        # By default LibRaw stretches photographs without bright pixels, each by its own factor.
        plain: dict[str, Any] = {
            "gamma": (1, 1),
            "no_auto_bright": True,
            "adjust_maximum_thr": 0.0,
            "use_camera_wb": False,
        }
        return np.asarray(stored.postprocess(**plain, output_bps=16, user_flip=0))


def _check_size(width: int, height: int) -> None:
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"it declares {width}×{height} pixels; at most {MOST_PIXELS:,} are allowed")
