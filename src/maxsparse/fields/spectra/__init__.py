"""Which materials are in this mixture? Unmixing of spectra with a library of pure materials."""

from __future__ import annotations

from maxsparse.fields.spectra.answer import Material, Unmixing
from maxsparse.fields.spectra.cubes import CubeMaps, unmix_cube
from maxsparse.fields.spectra.noise import band_noise
from maxsparse.fields.spectra.peers import sunsal
from maxsparse.fields.spectra.readers import open_cube, read_spectra
from maxsparse.fields.spectra.table import Spectra
from maxsparse.fields.spectra.unmix import unmix

__all__ = [
    "CubeMaps",
    "Material",
    "Spectra",
    "Unmixing",
    "band_noise",
    "open_cube",
    "read_spectra",
    "sunsal",
    "unmix",
    "unmix_cube",
]
