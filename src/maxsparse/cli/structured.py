"""``maxsparse solve`` and ``recover`` for snapshots and complex numbers: in memory, from file to file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from maxsparse.cli.printing import print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from maxsparse.result import Result

__all__ = ["has_structure", "read_labels", "run_in_memory"]

KEPT = (".npy", ".npz", ".mat")  # formats that hold (N, L, m) and complex numbers


def has_structure(signals: str, key: str | None) -> bool:
    """Return whether a file holds snapshots (N, L, n) or complex numbers, which are solved in memory."""
    path = Path(signals)
    if path.suffix == ".npy" and path.is_file():
        from maxsparse.files import check_npy_header

        with path.open("rb") as stream:
            try:
                shape, _, dtype = check_npy_header(stream, path.stat().st_size)
            except ValueError:
                return False  # the error is raised where it is read
        return len(shape) == 3 or dtype.kind == "c"
    if (path.suffix in (".npz", ".mat") and path.is_file()) or (path.suffix == ".zarr" and path.is_dir()):
        from maxsparse.files import read_array

        array = read_array(path, key, prefer=("Y",))
        return array.ndim == 3 or array.dtype.kind == "c"
    return False


def read_labels(text: str) -> list[Any]:
    """Read labels of atoms: a file of m numbers, or the labels themselves, separated by commas."""
    path = Path(text)
    if not path.suffix:
        return [int(label) if label.strip().lstrip("-").isdigit() else label.strip() for label in text.split(",")]
    from maxsparse.files import read_array

    labels = read_array(path, prefer=("groups",)).ravel()
    if (labels != labels.astype(int)).any():
        raise typer.BadParameter(f"{text!r} must hold whole numbers, one per atom", param_hint="--groups")
    return [int(label) for label in labels]


def run_in_memory(
    work: Callable[[Any], Result], signals: str, key: str | None, output: str, *, scheduler: str | None, as_json: bool
) -> None:
    """Solve or recover, and write: .npy the coefficients, .npz and .mat everything of the result."""
    import numpy as np

    from maxsparse._core.atomic import atomic_write
    from maxsparse.files import read_array

    if scheduler is not None:
        raise typer.BadParameter(
            "is for real signals (N, n), not for snapshots or complex data", param_hint="--scheduler"
        )
    target = Path(output)
    if target.suffix not in KEPT:
        raise typer.BadParameter(
            f"snapshots and complex numbers are written to {', '.join(KEPT)}, not to {output!r}", param_hint="--output"
        )
    Y = read_array(signals, key, prefer=("Y",))
    begun = time.monotonic()
    result = work(Y)
    if target.suffix == ".npz":
        result.to_npz(target)
    else:
        with atomic_write(target) as stream:
            if target.suffix == ".npy":
                np.save(stream, result.coef)
            else:
                import scipy.io

                extra = ("confidence", "inclusion", "certified") if hasattr(result, "confidence") else ()
                names = ("coef", "support", "scores", "residual", "iterations", "converged", *extra)
                scipy.io.savemat(stream, {name: np.asarray(getattr(result, name)) for name in names})  # type: ignore[arg-type]
    if as_json:
        shape = list(result.coef.shape)
        figures = {"output": output, "shape": shape, "converged": int(result.converged.sum())}
        print_json({**figures, "certified": int(result.certified.sum()), "seconds": round(time.monotonic() - begun, 3)})
    else:
        say(f"{output}\n  {result!r}")
