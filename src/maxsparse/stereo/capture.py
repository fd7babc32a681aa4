"""What photographs taken outside a laboratory need: exposures, a mask, and a check that the camera did not move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import FloatArray
from maxsparse.stereo.images import RAW

__all__ = ["Alignment", "CaptureWarning", "automatic_mask", "exposures"]

EXIF, TIME, APERTURE, SPEED = 0x8769, 0x829A, 0x829D, 0x8827  # tags of EXIF
SIDE = 256  # pixels of the pictures that are compared for alignment
SHAKEN = 1.0  # pixels of the photograph
SOFT, REPEATED = 0.75, 0.4  # autocorrelation at the shift, of soft shading and of patterns that repeat themselves
CLEAR = 1.15  # height of the peak at a shift, relative to that without one


class CaptureWarning(UserWarning):
    """Something about the photographs deserves a look: the camera moved, or exposures differ."""


def exposures(paths: Sequence[Path]) -> NDArray[np.float64] | None:
    """Return the relative exposures of photographs, time × speed / aperture², from their EXIF data.

    Parameters
    ----------
    paths : sequence of path

    Returns
    -------
    exposures : ndarray of shape (q,) or None
        With median 1; None if a photograph does not say its exposure time. Speed and aperture that are not given count
        as equal.
    """
    found = []
    for path in paths:
        tags = _exif(path)
        if not tags.get(TIME):
            return None
        speed = tags.get(SPEED) or 100.0
        speed = speed[0] if isinstance(speed, tuple) else speed
        try:
            found.append(float(tags[TIME]) * float(speed) / float(tags.get(APERTURE) or 1.0) ** 2)
        except (TypeError, ValueError, ArithmeticError):  # damaged tags hold anything
            return None
    values = np.array(found)
    return values / np.median(values) if (values > 0).all() and np.isfinite(values).all() else None


def automatic_mask(pictures: Callable[[], Any], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Separate the object from a darker background.

    The brightest of all readings of a pixel is high on the object, which some light reaches, and low on a dark
    background. Otsu's threshold [1]_ on its square root, lowered halfway to the background, divides the two; the
    largest connected part without its holes is the object.

    Parameters
    ----------
    pictures : callable
        Returns an iterable over the grey photographs, (H, W) each.
    size : (int, int)
        H and W.

    Returns
    -------
    mask : ndarray of shape (H, W), bool

    References
    ----------
    .. [1] N. Otsu, "A threshold selection method from gray-level histograms", IEEE Trans. SMC 9, 1979.
    """
    from scipy import ndimage

    brightest = np.zeros(size)
    for picture in pictures():
        np.maximum(brightest, picture, out=brightest)
    root = np.sqrt(brightest)
    counts, edges = np.histogram(root, bins=256)
    middles = (edges[1:] + edges[:-1]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    sums = np.cumsum(counts * middles)
    gap = sums / np.maximum(below, 1) - (sums[-1] - sums) / np.maximum(above, 1)
    threshold = edges[1 + int(np.argmax(below * above * gap**2))]
    # The rim of an object is darker than its middle: half of the way down to the background still belongs to it.
    background = root[root <= threshold]
    bright = root > (threshold + (np.median(background) if background.size else threshold)) / 2
    labels, count = ndimage.label(ndimage.binary_opening(bright))
    if not count:
        raise ValueError("no object stands out from the background; pass a mask, or photograph it in front of black")
    largest = 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
    mask: NDArray[np.bool_] = ndimage.binary_fill_holes(labels == largest)
    if mask.mean() > 0.98:
        raise ValueError("no object stands out from the background: everything is bright; pass a mask")
    return mask


class Alignment:
    """Collects photographs one by one and tells which of them are shifted.

    Edges of texture and silhouette stay in place when the light moves; phase correlation [1]_ of the pictures of edges
    finds a shift. Soft shading, and patterns that repeat themselves at that distance, do not tell it from
    another light.

    References
    ----------
    .. [1] C. Kuglin, D. Hines, "The phase correlation image alignment method", Int. Conf. on Cybernetics and Society,
       1975.
    """

    def __init__(self) -> None:
        self._edges: list[NDArray[np.float32]] = []
        self._step = 1

    def add(self, picture: FloatArray) -> None:
        """Add a grey photograph, (H, W)."""
        self._step = max(1, int(np.ceil(max(picture.shape) / SIDE)))
        f = self._step
        h, w = picture.shape[0] // f, picture.shape[1] // f
        small = np.nan_to_num(picture[: h * f, : w * f].reshape(h, f, w, f).mean(axis=(1, 3)), posinf=0.0)
        down, right = np.gradient(np.log(np.maximum(small, 0.0) + 0.02 * (small.max() + 1e-12)))
        edges = np.hypot(down, right)
        window = np.hanning(h + 2)[1:-1, None] * np.hanning(w + 2)[None, 1:-1]
        self._edges.append(((edges - edges.mean()) * window).astype(np.float32))

    def shifts(self) -> NDArray[np.float64]:
        """Return (q, 2), columns and rows by which photographs are shifted against the others; 0 if none is clear."""
        found = np.zeros((len(self._edges), 2))
        if len(self._edges) < 3 or min(self._edges[0].shape) < 16:
            return found
        usual = np.median(self._edges, axis=0)
        reference = np.conj(np.fft.fft2(usual))
        h, w = usual.shape
        similar = np.fft.ifft2(np.abs(reference) ** 2).real  # the autocorrelation, by lag
        smooth = np.exp(-8.0 * (np.fft.fftfreq(h)[:, None] ** 2 + np.fft.fftfreq(w)[None] ** 2))
        for i, edges in enumerate(self._edges):
            product = np.fft.fft2(edges) * reference
            peak = np.fft.ifft2(smooth * product / (np.abs(product) + 1e-12)).real
            r, c = np.unravel_index(int(np.argmax(peak)), peak.shape)
            if peak[r, c] < CLEAR * peak[0, 0]:
                continue
            shift = np.array([r - h if r > h // 2 else r, c - w if c > w // 2 else c])
            if not _ambiguous(similar, shift):
                found[i] = shift[::-1]
        return found * self._step

    def report(self, names: Sequence[str]) -> str | None:
        """Return a sentence on the photographs that are shifted, None if there are none."""
        size = np.linalg.norm(self.shifts(), axis=1)
        moved = np.flatnonzero(size >= SHAKEN)
        if not len(moved):
            return None
        listed = ", ".join(f"{names[i]} by {size[i]:.0f} pixels" for i in moved[:5])
        more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
        return f"the camera or the object moved between the photographs: {listed}{more}; align them, or leave them out"


def _ambiguous(similar: FloatArray, shift: NDArray[np.integer]) -> bool:
    """Return whether a picture with this autocorrelation (H, W) hardly shows a shift (rows, columns).

    Either it has no edges as sharp as the shift, or it repeats itself: the autocorrelation falls and rises again.
    """
    if similar[0, 0] == 0:  # no edges at all
        return True
    steps = int(np.abs(shift).max())
    way = np.rint(np.linspace(0.0, 1.0, steps + 1)[:, None] * shift).astype(int)
    height = similar[way[:, 0], way[:, 1]] / similar[0, 0]
    return bool(height[-1] > SOFT or (height[-1] > REPEATED and height.min() < 0.5 * height[-1]))


def _exif(path: Path) -> dict[int, Any]:
    """Return the EXIF tags of a file, none if it has none."""
    try:
        from PIL import Image
    except ModuleNotFoundError:  # OpenCV reads most photographs without it
        return {}
    try:
        if path.suffix.lower() in RAW:  # most raw formats are TIFF inside, with pixels that Pillow does not know
            held = Image.Exif()
            with path.open("rb") as stream:
                held.load_from_fp(stream)
                return dict(held) | dict(held.get_ifd(EXIF))
        with Image.open(path) as stored:
            held = stored.getexif()
            return dict(held) | dict(held.get_ifd(EXIF))
    except Exception:  # Pillow raises anything for damaged tags, struct.error among others
        return {}
