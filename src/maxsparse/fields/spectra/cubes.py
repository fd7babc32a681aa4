"""Hyperspectral images, a few rows at a time: maps of abundances and of confidence, in constant memory."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.atomic import atomic_write
from maxsparse._core.extras import needs
from maxsparse._core.progress import track
from maxsparse._core.validation import check_integer
from maxsparse.fields.spectra.readers import open_cube
from maxsparse.fields.spectra.report import write_cube_report
from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.unmix import unmix

__all__ = ["CubeMaps", "unmix_cube"]

BLOCK = 2000  # pixels that are unmixed at a time
CONNECT_SECONDS = 20
ONE_AT_A_TIME = threading.Lock()  # on a worker of several threads: compiled loops have their own


@dataclass(frozen=True, eq=False)
class CubeMaps:
    """Maps of an image, on disk.

    Attributes
    ----------
    abundance : ndarray of shape (rows, columns, m), float32
        Read from disk where it is indexed; NaN where a pixel has no data.
    confidence : ndarray of shape (rows, columns), float32
    names : tuple of m str
    """

    abundance: NDArray[np.float32]
    confidence: NDArray[np.float32]
    names: tuple[str, ...]

    def strongest(self, count: int = 6) -> list[int]:
        """Return the numbers of the materials with the most abundance in the whole image."""
        total = np.zeros(len(self.names))
        for row in self.abundance:
            total += np.nansum(row, axis=0)
        return [int(j) for j in np.argsort(-total, kind="stable")[:count] if total[j] > 0]

    def plot(self, count: int = 5) -> Any:
        """Draw the maps of the most abundant materials and the map of confidence.

        Parameters
        ----------
        count : int, default=5
            Number of materials.

        Returns
        -------
        figure : matplotlib Figure
        """
        from matplotlib.figure import Figure

        chosen = self.strongest(count)
        columns = min(3, len(chosen) + 1)
        rows = -(-(len(chosen) + 1) // columns)
        figure = Figure(figsize=(3.6 * columns, 3.2 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, j in zip(panels, chosen, strict=False):
            image = axes.imshow(self.abundance[:, :, j], vmin=0.0, cmap="magma", interpolation="nearest")
            axes.set_title(self.names[j], fontsize=9)
            figure.colorbar(image, ax=axes, shrink=0.8)
        image = panels[len(chosen)].imshow(self.confidence, vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
        panels[len(chosen)].set_title("confidence", fontsize=9)
        figure.colorbar(image, ax=panels[len(chosen)], shrink=0.8)
        for axes in panels:
            axes.set_axis_off()
        return figure


def unmix_cube(
    library: Spectra,
    cube: str | os.PathLike[str] | ArrayLike,
    folder: str | os.PathLike[str],
    *,
    wavelength: ArrayLike | None = None,
    bad_bands: Iterable[int] | None = None,
    block: int = BLOCK,
    progress: bool = False,
    scheduler: Any = None,
    **options: Any,
) -> CubeMaps:
    """Unmix every pixel of an image and write maps: abundance.npy, confidence.npy, names.txt, maps.png, report.html.

    Parameters
    ----------
    library : Spectra
    cube : str, path or array-like of shape (rows, columns, bands)
        ENVI header or .npy file; or an array, on disk, in memory, or of dask.
    folder : str or path
        Made if it does not exist.
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
        Of :func:`unmix`: ``noise=``, ``baseline=``, ``budget=`` ("normal" here), …

    Returns
    -------
    maps : CubeMaps
    """
    given: Any = cube
    own = None
    if isinstance(cube, str | os.PathLike):
        given, own = open_cube(cube)
    if np.ndim(given) != 3:
        raise ValueError(f"a cube has rows, columns and bands, got shape {np.shape(given)}")
    axis = own if wavelength is None else wavelength
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    height, width, _ = given.shape
    shape = (height, width, len(library))
    rows = max(1, check_integer(block, "block", low=1) // width)
    bad = None if bad_bands is None else np.asarray(list(bad_bands), dtype=int)
    work = _Work(library, axis, bad, {"budget": "normal", **options})
    starts = range(0, height, rows)
    blocks = (np.array(given[start : start + rows], dtype=np.float64) for start in starts)
    answers = map(work, blocks) if scheduler is None else _on_workers(scheduler, work, blocks)
    paths = target / "abundance.npy", target / "confidence.npy"
    with _new_map(paths[0], shape) as abundance, _new_map(paths[1], shape[:2]) as confidence:
        for start, (found, sure) in zip(track(starts, "unmix", progress), answers, strict=True):
            abundance[start : start + rows], confidence[start : start + rows] = found, sure
    with atomic_write(target / "names.txt") as stream:
        stream.write("\n".join(library.names).encode())
    written = [np.load(path, mmap_mode="r") for path in paths]
    maps = CubeMaps(written[0], written[1], library.names)
    write_cube_report(maps, target)
    return maps


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


@dataclass(frozen=True, eq=False)
class _Work:
    """What is done with every block of pixels."""

    library: Spectra
    wavelength: Any
    bad: NDArray[np.intp] | None
    options: dict[str, Any]

    def __call__(self, pixels: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return abundances (rows, columns, m) and confidences (rows, columns) of pixels (rows, columns, bands)."""
        flat = pixels.reshape(-1, pixels.shape[2])
        compared = flat if self.bad is None else np.delete(flat, self.bad, axis=1)
        good = np.isfinite(compared).all(axis=1) & (compared != 0).any(axis=1)
        found = np.full((len(flat), len(self.library)), np.nan, dtype=np.float32)
        sure = np.zeros(len(flat), dtype=np.float32)
        if good.any():
            spectra = Spectra(np.nan_to_num(flat[good]), self.wavelength)
            result = unmix(self.library, spectra, bad_bands=self.bad, **self.options)
            found[good], sure[good] = result.abundance, result.confidence
        return found.reshape(*pixels.shape[:2], -1), sure.reshape(pixels.shape[:2])


def _run(work: _Work, pixels: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    with ONE_AT_A_TIME:
        return work(pixels)


def _on_workers(
    scheduler: Any, work: _Work, blocks: Iterable[NDArray[np.float64]]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Yield the answers of blocks, in their order, from the workers of a scheduler."""
    with needs("unmixing on a cluster"):
        import distributed
    own = isinstance(scheduler, str)
    client = distributed.Client(scheduler, timeout=CONNECT_SECONDS) if own else scheduler
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        sent, under_way = client.scatter(work, broadcast=True), deque[Any]()
        for pixels in blocks:
            # As a future of its own: in a task's arguments a block would stay with the scheduler.
            under_way.append(client.submit(_run, sent, client.scatter(pixels), pure=False))
            if len(under_way) >= 2 * max(1, sum(client.nthreads().values())):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        if own:
            client.close()
