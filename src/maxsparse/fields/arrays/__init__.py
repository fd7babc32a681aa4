"""Where do the waves come from? Directions of arrival from snapshots of an array of sensors.

Azimuth is measured from the y axis towards the x axis, elevation from the x-y plane, both in degrees: for sensors in a
row on the x axis, azimuth is the angle from broadside.
"""

from __future__ import annotations

from maxsparse.fields.arrays.answer import Directions
from maxsparse.fields.arrays.bound import cramer_rao
from maxsparse.fields.arrays.directions import estimate_directions
from maxsparse.fields.arrays.geometry import Array, circular, linear, simulate
from maxsparse.fields.arrays.peers import capon, esprit, music
from maxsparse.fields.arrays.readers import Recording, read_array, read_snapshots

__all__ = [
    "Array",
    "Directions",
    "Recording",
    "capon",
    "circular",
    "cramer_rao",
    "esprit",
    "estimate_directions",
    "linear",
    "music",
    "read_array",
    "read_snapshots",
    "simulate",
]
