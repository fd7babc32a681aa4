"""``maxsparse info``: properties of a dictionary or a model, and expected accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from maxsparse.cli.arguments import Json, is_model, open_model, read_dictionary
from maxsparse.cli.compare import OURS, Curve, measure, warm_up
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.recovery import SparseRecoverer
    from maxsparse.theory.describe import Description

__all__ = ["info"]

SEED = 0


def info(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL_OR_PHI",
            help="Model file (.safetensors), or a dictionary (n, m): n measurements, m atoms "
            "(.npy, .npz, .mat, .csv, .parquet, .zarr).",
        ),
    ],
    signals: Annotated[int, typer.Option(min=0, help="Signals per sparsity for a trial recovery; 0 skips it.")] = 50,
    key: Annotated[str | None, typer.Option("--key", help="Name of the array in the file.")] = None,
    as_json: Json = False,
) -> None:
    """Describe a dictionary or a model: coherence, guarantees, and a trial recovery.

    Example: maxsparse info Phi.npy
    """
    model = open_model(path, key)
    Phi = read_dictionary(path, key)
    figures: dict[str, Any] = {"file": str(path), "kind": "model" if is_model(path) else "dictionary"}
    lines = [f"{path}", ""]
    if is_model(path):
        about = _about(model)
        figures |= about
        lines += [f"{name:19} {value}" for name, value in about.items()]
    from maxsparse import theory

    description = theory.describe(Phi, rng=SEED)
    figures |= _figures(description) | {"dtype": str(np.asarray(Phi).dtype)}
    lines.append(str(description))
    n, m = description.shape
    if n >= m:
        lines.append(
            f"note                {n} measurements, {m} atoms: least squares finds x. Does this file hold signals?"
        )
    if not as_json:
        typer.echo("\n".join(lines))
    if signals and n < m:
        sparsities = sorted({d for d in (1, n // 8, n // 4, (3 * n) // 8, n // 2) if d >= 1})
        warm_up(model)
        curve = measure(OURS, lambda Y, d: model.recover(Y), np.asarray(Phi), sparsities, signals, SEED)
        figures["trial"] = _trial(curve, signals)
        if not as_json:
            _print_trial(curve, signals)
    if as_json:
        print_json(figures)


def _about(model: SparseRecoverer) -> dict[str, Any]:
    """Describe the contents of a model file other than its dictionary."""
    network = getattr(model, "trained_", None) or model.network
    network = getattr(network, "network", network)
    about: dict[str, Any] = {}
    if isinstance(network, str):
        about["network"] = f"{network}, {'stored in the file' if hasattr(model, 'weights_') else 'bundled'}"
        if hasattr(model, "weights_"):
            passes = (model.weights_, *getattr(model, "later_weights_", ()))
            about["passes"] = len(passes)
            about["parameters"] = sum(int(array.size) for weights in passes for array in weights)
    else:
        about["network"] = getattr(network, "name", type(network).__name__)
        about["hyperparameters"] = getattr(network, "hyperparameters", {})
        about["parameters"] = sum(int(tensor.numel()) for tensor in network.parameters())
    settings = model.get_params(deep=False)
    return about | {name: settings[name] for name in ("noise", "budget", "rtol", "random_state")}


def _figures(description: Description) -> dict[str, Any]:
    """Return a description of a dictionary as plain JSON."""
    spark = description.spark
    return {
        "shape": description.shape,
        "rank": description.rank,
        "condition": description.condition,
        "duplicate_atoms": description.duplicates,
        "coherence": description.coherence,
        "whitened_coherence": description.whitened_coherence,
        "spark": {"lower": spark.lower, "upper": spark.upper, "unique_up_to": spark.unique_up_to},
        "delta_3": {
            "plain": [description.delta.lower, description.delta.upper],
            "whitened": [description.whitened_delta.lower, description.whitened_delta.upper],
        },
        "guaranteed": {"omp_and_l1": description.guaranteed, "iht": description.guaranteed_iht},
        "expected": {
            "omp": description.plain.up_to("omp"),
            "l1": description.plain.up_to("l1"),
            "omp_whitened": description.whitened.up_to("omp"),
            "l1_whitened": description.whitened.up_to("l1"),
        },
        "advice": description.advice,
    }


def _trial(curve: Curve, N: int) -> dict[str, Any]:
    return {
        "signals_per_sparsity": N,
        "nonzeros": curve.sparsities,
        "right": curve.right,
        "certified": curve.certified,
        "certified_but_wrong": curve.false,
        "milliseconds_per_signal": curve.milliseconds,
    }


def _print_trial(curve: Curve, N: int) -> None:
    typer.echo(f"\ntrial               {N} random noiseless signals each, recovered with certificates:")
    rows = zip(curve.sparsities, curve.right, curve.certified, curve.milliseconds, strict=True)
    for d, right, certified, milliseconds in rows:
        typer.echo(
            f"{'':20}{d} nonzeros: {right:.0%} right, {certified:.0%} certified, {milliseconds:.2f} ms per signal"
        )
