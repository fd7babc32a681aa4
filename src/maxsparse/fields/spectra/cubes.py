"""Hyperspectral images, a few rows at a time: maps of materials, confidence and verdicts, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.progress import track
from maxsparse._core.validation import check_integer
from maxsparse.fields.spectra.blocks import Work, learned_noise, on_workers
from maxsparse.fields.spectra.inputs import as_spectra
from maxsparse.fields.spectra.readers import open_cube
from maxsparse.fields.spectra.report import draw_maps, write_cube_report
from maxsparse.fields.spectra.table import Spectra

__all__ = ["CubeMaps", "unmix_cube"]

BLOCK = 2000  # pixels that are unmixed at a time


@dataclass(frozen=True, eq=False, repr=False)
class CubeMaps:
    """Maps of an image, on disk; read where they are indexed, NaN where a pixel has no data.

    Attributes
    ----------
    abundance, error, probability : ndarray of shape (rows, columns, m), float32
        Of every material, as in :class:`Unmixing`.
    confidence : ndarray of shape (rows, columns), float32
        Probability that these are exactly the materials.
    verdict : ndarray of shape (rows, columns), float32
        0: fits, 1: incomplete, 2: none of the library.
    residual : ndarray of shape (rows, columns), float32
        Root mean square of what remains.
    names : tuple of m str
    """

    abundance: NDArray[np.float32]
    error: NDArray[np.float32]
    probability: NDArray[np.float32]
    confidence: NDArray[np.float32]
    verdict: NDArray[np.float32]
    residual: NDArray[np.float32]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        height, width, count = self.abundance.shape
        return f"CubeMaps({height} × {width} pixels, {count} materials)"

    def strongest(self, count: int = 6) -> list[int]:
        """Return the numbers of the materials with the most abundance in the whole image."""
        total = np.zeros(len(self.names))
        for row in self.abundance:
            total += np.nansum(row, axis=0)
        return [int(j) for j in np.argsort(-total, kind="stable")[:count] if total[j] > 0]

    def plot(self, count: int = 5) -> Any:
        """Draw the maps of the most abundant materials, of confidence and of verdicts.

        Parameters
        ----------
        count : int, default=5
            Number of materials.

        Returns
        -------
        figure : matplotlib Figure
        """
        return draw_maps(self, count)


def unmix_cube(
    library: Spectra | ArrayLike | str | os.PathLike[str],
    cube: str | os.PathLike[str] | ArrayLike,
    folder: str | os.PathLike[str],
    *,
    names: Iterable[Any] | None = None,
    wavelength: ArrayLike | None = None,
    bad_bands: Iterable[int] | None = None,
    block: int = BLOCK,
    progress: bool = False,
    scheduler: Any = None,
    **options: Any,
) -> CubeMaps:
    """Unmix every pixel of an image and write maps, one .npy file each, names.txt, maps.png and report.html.

    Parameters
    ----------
    library : Spectra, array-like of shape (m, bands), table or path
        As for :func:`unmix`.
    cube : str, path or array-like of shape (rows, columns, bands)
        ENVI header or .npy file; or an array, on disk, in memory, or of dask. A pixel that is zero or in which most
        bands are missing (NaN) has no data; other missing bands are left out for that pixel.
    folder : str or path
        Made if it does not exist.
    names : iterable of m str or None, default=None
        Names of the materials; None: those of `library`.
    wavelength : array-like of shape (bands,) or None, default=None
        Of an image that has none of its own.
    bad_bands : iterable of int or None, default=None
        Numbers of bands to leave out.
    block : int, default=2000
        Pixels in memory at a time.
    progress : bool, default=False
        Show a progress bar on a terminal.
    scheduler : str, distributed.Client or None, default=None
        Unmix on the workers of this dask scheduler, such as ``"tcp://host:8786"``. This process reads the image and
        writes the maps; two blocks per thread of the workers are in progress at a time.
    **options
        Of :func:`unmix`: ``noise=``, ``baseline=``, ``budget=`` ("normal" here), … With ``noise="bands"``, the noise is
        learned once, from pixels of the whole image.

    Returns
    -------
    maps : CubeMaps
    """
    pure, given, own = as_spectra(library, names), cube, None
    if isinstance(cube, str | os.PathLike):
        given, own = open_cube(cube)
    image: Any = given if hasattr(given, "shape") else np.asarray(given)
    if len(image.shape) != 3 or 0 in image.shape:
        raise ValueError(f"a cube has rows, columns and bands, none of them zero, got shape {tuple(image.shape)}")
    unit = getattr(image, "unit", None) if wavelength is None else None
    bad = None if bad_bands is None else np.asarray(list(bad_bands), dtype=int)
    axis = own if wavelength is None else np.asarray(wavelength, dtype=float)
    work = Work(pure, axis, unit, bad, {"budget": "normal", **options})
    noise = options.get("noise", "auto")
    if isinstance(noise, str) and noise == "bands":
        work.options["noise"] = learned_noise(work, image)
    elif np.ndim(noise) == 1 and axis is not None and axis[0] > axis[-1]:
        work.options["noise"] = np.asarray(noise)[::-1]  # spectra are in rising order of wavelength
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    _write_maps(work, image, target, check_integer(block, "block", low=1), scheduler, progress)
    with atomic_write(target / "names.txt") as stream:
        stream.write("\n".join(pure.names).encode())
    written = {name: np.load(target / f"{name}.npy", mmap_mode="r") for name in work.maps}
    maps = CubeMaps(**written, names=pure.names)
    write_cube_report(maps, target)
    return maps


def _write_maps(work: Work, image: Any, target: Path, block: int, scheduler: Any, progress: bool) -> None:
    height, width, _ = image.shape
    rows = max(1, block // width)
    starts = range(0, height, rows)
    blocks = (np.array(image[start : start + rows], dtype=np.float64) for start in starts)
    answers = map(work, blocks) if scheduler is None else on_workers(scheduler, work, blocks)
    with ExitStack() as stack:
        maps = {
            name: stack.enter_context(_new_map(target / f"{name}.npy", (height, width, *shape)))
            for name, shape in work.maps.items()
        }
        for start, found in zip(track(starts, "unmix", progress), answers, strict=True):
            for name, part in found.items():
                maps[name][start : start + rows] = part


@contextmanager
def _new_map(path: Path, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
    """Yield an array on disk to write to; the file gets its name when all is written, so that none is half done."""
    with atomic_write(path) as stream:
        about = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, about)
        stream.truncate(stream.tell() + 4 * int(np.prod(shape)))
        stream.flush()
        written = np.lib.format.open_memmap(stream.name, mode="r+")
        yield written
        written.flush()
        del written
