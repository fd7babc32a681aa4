"""The trained networks that the zoo should hold, by name.

``python -m maxsparse.experiments.pretrained FOLDER`` puts into the zoo what training left in FOLDER, under the names of
the preset ``day``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from maxsparse.experiments.recipes import Recipe
from maxsparse.experiments.training_plans import PLANS, Training

__all__ = ["day_recipes"]

SIZE = (20, 100)
SPARSITIES = (1, 10)
SHORT = ("residual", "residual-plain", "residual-helu", "residual-squares")


def day_recipes() -> dict[str, Recipe]:
    """Return the recipes of the preset ``day`` by the name of their network in the zoo."""
    n, m = SIZE
    day, short = (Training(PLANS[name], n, m, 0, 1, SPARSITIES) for name in ("day", "day, short"))
    found = {name: day.recipe(name) for name in ("residual", "residual-raw")}
    found |= {name: day.recipe(name) for name in ("ista-net", "iht-net", "ista-net-whitened", "iht-net-whitened")}
    unit = Training(PLANS["day"], n, m, 0, 1, SPARSITIES, amplitudes="unit")
    found |= {f"{name}-unit": unit.recipe(name) for name in ("residual", "lstm")}
    found |= {f"{name}-short": short.recipe(name) for name in SHORT}
    gaussian = Training(PLANS["day, short"], n, m, 0, 1, SPARSITIES, amplitudes="gaussian")
    tenth = Training(PLANS["day, short"], n, m, 0, 1, SPARSITIES, share=0.1)
    found |= {"residual-gaussian-short": gaussian.recipe("residual"), "residual-tenth-short": tenth.recipe("residual")}
    return {f"{name}-{n}x{m}": recipe for name, recipe in found.items()}


def main(folder: Path) -> None:
    """Put every finished network of a folder that a recipe of ``day`` describes into the zoo."""
    from maxsparse.networks.storage import read
    from maxsparse.networks.zoo import add_pretrained

    headers = {path: read(path, "network")[1] for path in sorted(folder.glob("*.safetensors")) if _whole(path)}
    for name, recipe in day_recipes().items():
        match = next((path for path, header in headers.items() if recipe.describes(header)), None)
        if match is not None:
            target = add_pretrained(name, match)
            sys.stdout.write(f"{target}: {target.stat().st_size / 1e6:.1f} MB from {match.name}\n")
        else:
            sys.stdout.write(f"{name}: not there\n")


def _whole(path: Path) -> bool:
    """Return whether a file is a finished model: not a checkpoint, nor the best weights of an unfinished run."""
    return ".checkpoint" not in path.name and not path.with_name(f"{path.stem}.checkpoint.safetensors").exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
