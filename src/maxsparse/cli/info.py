"""``maxsparse info``: properties of a dictionary or a model, and expected accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from maxsparse._core.progress import countdown
from maxsparse.cli.arguments import Json, is_model, open_model, read_dictionary
from maxsparse.cli.compare import OURS, Curve, Method, measure, say_what_is_missing, warm_up
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse._core.validation import FloatArray
    from maxsparse.recovery import SparseRecoverer
    from maxsparse.theory.describe import Description

__all__ = ["info"]

SEED = 0


def info(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="MODEL_OR_PHI",
            help="Model file (.safetensors), or a dictionary (n, m): n measurements, m atoms "
            "(.npy, .npz, .mat, .csv, .parquet, .zarr).",
            show_default=False,
        ),
    ] = None,
    signals: Annotated[int, typer.Option(min=0, help="Signals per sparsity for a trial recovery; 0 skips it.")] = 50,
    seconds: Annotated[
        float,
        typer.Option(min=0.1, help="Time for the trial recovery, without compiling; what does not fit is left out."),
    ] = 8.0,
    key: Annotated[str | None, typer.Option("--key", help="Name of the array in the file.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the networks that come trained and exit.")] = False,
    as_json: Json = False,
) -> None:
    """Describe a dictionary or a model: coherence, guarantees, and a trial recovery.

    Example: maxsparse info Phi.npy
    """
    if list_all:
        _list(as_json)
        return
    if path is None:
        raise typer.BadParameter("which model or dictionary? Give a file, or --list", param_hint="MODEL_OR_PHI")
    model = open_model(path, key)
    Phi = read_dictionary(path, key)
    figures: dict[str, Any] = {"file": str(path), "kind": "model" if is_model(path) else "dictionary"}
    lines = [f"{path}", ""]
    if is_model(path):
        about = _about(model)
        figures |= about
        lines += [f"{name:19} {value}" for name, value in about.items()]
    from maxsparse import theory

    description = theory.describe(Phi, rng=SEED, progress=True)
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
        from maxsparse.recovery import SparseRecoverer

        sparsities = sorted({d for d in (1, n // 8, n // 4, (3 * n) // 8, n // 2) if d >= 1})
        matrix = np.asarray(Phi)

        def recovery(part: FloatArray) -> Method:
            used = model if part is matrix else SparseRecoverer(part)
            warm_up(used)
            return lambda Y, d: used.recover(Y)

        with countdown(seconds, "trial", True):
            curve = measure(OURS, recovery, matrix, sparsities, signals, SEED, seconds)
        figures["trial"] = _trial(curve)
        if not as_json:
            _print_trial(curve, signals)
    if as_json:
        print_json(figures)


def _list(as_json: bool) -> None:
    """List the networks of the zoo with what they were trained on and their strict accuracy at training's end."""
    from maxsparse.networks.zoo import pretrained_headers, zoo_folder

    folder, found = zoo_folder(), {}
    for name, header in pretrained_headers().items():
        task, report = header["about"]["task"], header["about"]["report"]
        found[name] = {
            "network": header["network"],
            "signals": report["samples"],
            "amplitudes": task["amplitudes"],
            "loss": task["loss"],
            "strict": dict(zip(report["best"]["d"], report["best"]["strict"], strict=True)),
        }
    if as_json:
        print_json({"folder": None if folder is None else str(folder), "networks": found})
    elif not found:
        typer.echo("There are none here: they are in the folder 'zoo' of the repository; MAXSPARSE_ZOO names its path.")
    else:
        width = max(map(len, found))
        typer.echo(f"{folder}: ms.networks.pretrained(NAME)\n")
        typer.echo(f"{'NAME':{width}}  million signals  s-acc at d = 1, 2, 3, 4, 5")
        for name, figures in found.items():
            strict = "  ".join(f"{figures['strict'].get(d, float('nan')):.3f}" for d in range(1, 6))
            typer.echo(f"{name:{width}}  {figures['signals'] / 1e6:15.1f}  {strict}")


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


def _trial(curve: Curve) -> dict[str, Any]:
    return {
        "signals_per_sparsity": curve.signals,
        "nonzeros": curve.sparsities,
        "right": curve.right,
        "certified": curve.certified,
        "certified_but_wrong": curve.false,
        "milliseconds_per_signal": curve.milliseconds,
        "left_out": curve.left_out,
    }


def _print_trial(curve: Curve, N: int) -> None:
    typer.echo("\ntrial               random noiseless signals, recovered with certificates:")
    rows = zip(curve.sparsities, curve.signals, curve.right, curve.certified, curve.milliseconds, strict=True)
    for d, count, right, certified, milliseconds in rows:
        typer.echo(
            f"{'':20}{d} nonzeros: {right:.0%} of {count} right, {certified:.0%} certified, "
            f"{milliseconds:.2f} ms per signal"
        )
    say_what_is_missing([curve], N)
