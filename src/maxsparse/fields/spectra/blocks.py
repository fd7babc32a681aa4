"""What is done with every block of an image's pixels, here or on the workers of a scheduler."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.extras import needs
from maxsparse.fields.spectra.answer import Unmixing
from maxsparse.fields.spectra.compare import compared
from maxsparse.fields.spectra.noise import LearnedNoise, band_noise
from maxsparse.fields.spectra.nuisance import Nuisance
from maxsparse.fields.spectra.table import DELETED, Spectra
from maxsparse.fields.spectra.unmix import unmix

__all__ = ["Work", "learned_noise", "on_workers"]

CONNECT_SECONDS = 20
ONE_AT_A_TIME = threading.Lock()  # on a worker of several threads: compiled loops have their own
LEAST_BANDS = 0.5  # share of a block's bands below which a pixel has no data
SAMPLE = 1000  # pixels that the noise of every band is learned from


@dataclass(frozen=True, eq=False)
class Work:
    """Library and options: unmixes blocks of pixels."""

    library: Spectra
    wavelength: NDArray[np.float64] | None
    unit: str | None
    bad: NDArray[np.intp] | None
    options: dict[str, Any]

    @property
    def maps(self) -> dict[str, tuple[int, ...]]:
        """Names of the maps, with the shape of a pixel in each."""
        found: dict[str, tuple[int, ...]] = dict.fromkeys(("abundance", "error", "probability"), (len(self.library),))
        return {**found, "confidence": (), "verdict": (), "residual": ()}

    def __call__(self, pixels: NDArray[np.float64]) -> dict[str, NDArray[np.float32]]:
        """Return the parts of all maps for pixels (rows, columns, bands)."""
        flat, bands = self.prepared(pixels.reshape(-1, pixels.shape[2]))
        maps = {name: np.full((len(flat), *shape), np.nan, dtype=np.float32) for name, shape in self.maps.items()}
        good = _with_data(flat, bands)
        # Pixels that lack the same bands are unmixed together: a library is prepared once for each such group.
        patterns, group = np.unique(bands[good], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            members = good[group.ravel() == number]
            spectra = self.spectra(np.where(pattern, flat[members], 0.0))
            found = unmix(self.library, spectra, bad_bands=~pattern, **self.options)
            for name, part in _figures(found).items():
                maps[name][members] = part
        return {name: part.reshape(*pixels.shape[:2], *part.shape[1:]) for name, part in maps.items()}

    def spectra(self, values: NDArray[np.float64]) -> Spectra:
        """Return pixels (N, bands), in rising order of wavelength, as spectra."""
        return Spectra(values, None if self.wavelength is None else np.sort(self.wavelength), unit=self.unit)

    def prepared(self, pixels: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return pixels (N, bands) in rising order of wavelength, and which bands can be used of each."""
        n = pixels.shape[1]
        bands: NDArray[np.bool_] = np.isfinite(pixels) & (pixels > DELETED)
        if self.bad is not None:
            if self.bad.size and (self.bad.min() < 0 or self.bad.max() >= n):
                raise ValueError(f"bad_bands must be numbers of bands from 0 to {n - 1}")
            bands[:, self.bad] = False
        if self.wavelength is not None and self.wavelength[0] > self.wavelength[-1]:
            pixels, bands = pixels[:, ::-1], bands[:, ::-1]
        pure, _ = compared(self.library, self.spectra(pixels[:1]))
        return pixels, bands & np.isfinite(pure.values).all(axis=0)


def _with_data(flat: NDArray[np.float64], bands: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the numbers of the pixels that are not zero and have most of the bands that any pixel has."""
    enough = bands.sum(axis=1) >= max(1.0, LEAST_BANDS * int(bands.any(axis=0).sum()))
    return np.flatnonzero(enough & (bands & (flat != 0)).any(axis=1))


def _figures(found: Unmixing) -> dict[str, NDArray[np.float64]]:
    size = np.sqrt(np.mean(found.residual[:, found.used] ** 2, axis=1))
    maps = {"abundance": found.abundance, "error": found.error, "probability": found.probability}
    verdict = found.verdict_numbers.astype(np.float64)
    return maps | {"confidence": found.confidence, "verdict": verdict, "residual": size}


def learned_noise(work: Work, image: Any) -> LearnedNoise:
    """Return the noise of every band, from pixels all over an image."""
    height, width, n = image.shape
    chosen = np.unique(np.linspace(0, height - 1, min(height, max(1, SAMPLE // width))).round().astype(int))
    columns = np.unique(np.linspace(0, width - 1, min(width, max(1, SAMPLE // chosen.size))).round().astype(int))
    flat = np.concatenate([np.array(image[int(row)], dtype=np.float64)[columns] for row in chosen])
    flat, bands = work.prepared(flat)
    good = _with_data(flat, bands)
    used = bands[good].all(axis=0)
    if not good.size or not used.any():
        raise ValueError("noise='bands' found no pixels with data in the same bands; give noise= per band")
    pure, measured = compared(work.library, work.spectra(flat[good]))
    axis = np.arange(n, dtype=float) if measured.wavelength is None else measured.wavelength
    options = {"baseline": -1, "gain": 0, "shift": False}
    nuisance = Nuisance(axis[used], *(work.options.get(name, default) for name, default in options.items()))
    learned = band_noise(measured.values[:, used], nuisance.extended(pure.values[:, used]))
    sigma = np.full(n, np.median(learned))  # for bands that only some pixels have
    sigma[used] = learned
    return LearnedNoise(sigma)


def _run(work: Work, pixels: NDArray[np.float64]) -> dict[str, NDArray[np.float32]]:
    with ONE_AT_A_TIME:
        return work(pixels)


def on_workers(
    scheduler: Any, work: Work, blocks: Iterable[NDArray[np.float64]]
) -> Iterator[dict[str, NDArray[np.float32]]]:
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
