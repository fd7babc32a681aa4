"""Error maps of the experiment ``stereo``: small pictures in its records, and the figure made of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxsparse.experiments.data import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsparse.stereo import NormalMap, Scene

__all__ = ["WORST", "draw_maps", "packed", "packed_normals"]

WORST = 20.0  # degrees at which the maps are saturated
SIDE = 128
COLOURS = 32  # levels of a true normal's component
LEVELS = 40  # half a degree each: more would only make the files larger
OUTSIDE = 255


def packed(result: NormalMap) -> str:
    """Return the error map as a small grey PNG in text."""
    error = result.error
    assert error is not None
    step = max(1, error.shape[0] // SIDE)
    small = error[::step, ::step]
    return _text(np.where(np.isnan(small), OUTSIDE, np.rint(np.minimum(small / WORST, 1.0) * LEVELS)))


def packed_normals(scene: Scene) -> str:
    """Return the true normals as a small PNG in text: x, y, z as red, green, blue, white outside the object."""
    assert scene.normals is not None
    step = max(1, scene.mask.shape[0] // SIDE)
    shade = np.rint((scene.normals + 1.0) * 0.5 * COLOURS) * (255.0 / COLOURS)
    return _text(np.where(scene.mask[..., None], shade, 255.0)[::step, ::step])


def _text(values: NDArray[np.float64]) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(values.astype(np.uint8)).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def _picture(text: str) -> NDArray[np.float64]:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))).astype(np.float64)


def draw_maps(figure: Figure, labels: Mapping[str, str], lights: Sequence[int], data: Data, seed: int) -> None:
    """Draw one draw: true normals, then a row per number of lights and a column per method; missing ones stay empty."""
    of_draw = data.select(seed=seed)
    maps = {(r.where["q"], r.where["method"]): r.where["map"] for r in of_draw.records if "map" in r.where}
    truth = next((r.where["truth"] for r in of_draw.records if "truth" in r.where), None)
    grid = figure.subplots(len(lights), 1 + len(labels), squeeze=False)
    for i, q in enumerate(lights):
        for axes in grid[i]:
            axes.set_axis_off()
        if truth is not None and i == 0:
            grid[0, 0].imshow(_picture(truth) / 255.0)
            grid[0, 0].set_title("true normals\n", fontsize=8)
        for j, (method, label) in enumerate(labels.items()):
            axes = grid[i, 1 + j]
            axes.set_title(f"{label}\n" if i == 0 else "", fontsize=8)
            if (q, method) not in maps:
                continue
            levels = _picture(maps[q, method])
            axes.set_axis_on()
            axes.imshow(np.where(levels == OUTSIDE, np.nan, levels), cmap="magma", vmin=0, vmax=LEVELS)
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel(f"{of_draw.mean('degrees', method=method, q=q):.2f}°", fontsize=8)
            if j == 0:
                axes.set_ylabel(f"q = {q}", fontsize=9)
