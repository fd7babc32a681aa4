"""Error maps of the experiment ``stereo``: small pictures in its records, and the figure made of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxsparse.experiments.data import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsparse.stereo import NormalMap

__all__ = ["WORST", "draw_maps", "packed"]

WORST = 20.0  # degrees at which the maps are saturated
SIDE = 128
LEVELS = 40  # half a degree each: more would only make the files larger
OUTSIDE = 255


def packed(result: NormalMap) -> str:
    """Return the error map as a small grey PNG in text."""
    from PIL import Image

    error = result.error
    assert error is not None
    step = max(1, error.shape[0] // SIDE)
    small = error[::step, ::step]
    levels = np.where(np.isnan(small), OUTSIDE, np.rint(np.minimum(small / WORST, 1.0) * LEVELS)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(levels).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def draw_maps(figure: Figure, labels: Mapping[str, str], lights: Sequence[int], data: Data, seed: int) -> None:
    """Draw the maps of one draw, a row per number of lights and a column per method; missing ones stay empty."""
    from PIL import Image

    of_draw = data.select(seed=seed)
    maps = {(r.where["q"], r.where["method"]): r.where["map"] for r in of_draw.records if "map" in r.where}
    grid = figure.subplots(len(lights), len(labels), squeeze=False)
    for i, q in enumerate(lights):
        for j, (method, label) in enumerate(labels.items()):
            axes = grid[i, j]
            axes.set_title(f"{label}\n" if i == 0 else "", fontsize=8)
            if (q, method) not in maps:
                axes.set_axis_off()
                continue
            levels = np.asarray(Image.open(io.BytesIO(base64.b64decode(maps[q, method])))).astype(np.float64)
            axes.imshow(np.where(levels == OUTSIDE, np.nan, levels), cmap="magma", vmin=0, vmax=LEVELS)
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel(f"{of_draw.mean('degrees', method=method, q=q):.2f}°", fontsize=8)
        grid[i, 0].set_ylabel(f"q = {q}", fontsize=9)
