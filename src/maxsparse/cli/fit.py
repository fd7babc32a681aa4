"""``maxsparse fit``: a model for a dictionary, bundled, fine-tuned or trained, with one process or many."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse._core.registry import NETWORKS
from maxsparse.cli.arguments import Json, check_name, one_of, parse_pairs, parse_sparsity, read_dictionary
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.training import Report

__all__ = ["fit"]

BUNDLED = "learned_sbl"  # the network that comes trained

Dictionary = Annotated[
    Path | None,
    typer.Argument(
        metavar="PHI", help="Dictionary (n, m): .npy, .npz, .mat, .csv, .parquet, .zarr, or the one in a model file."
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write, .safetensors.")]
Network = Annotated[
    str,
    typer.Option(
        help="learned_sbl is bundled, trained, and recovers best; --minutes fine-tunes it to PHI. "
        f"{one_of(name for name in NETWORKS if name != BUNDLED).rstrip('.')} is trained from scratch "
        "for --minutes or --samples.",
        autocompletion=lambda: list(NETWORKS),
    ),
]
Sparsity = Annotated[
    str | None, typer.Option(metavar="D|LOW:HIGH", help="Nonzeros of the training signals. (default: 1:n/2)")
]
Noise = Annotated[float, typer.Option(min=0.0, help="Standard deviation of noise on the signals.")]
Loss = Annotated[
    str | None,
    typer.Option(
        help="softmax, sigmoid or least_squares. (default: least_squares for ista_net and iht_net, else softmax)"
    ),
]
Preset = Annotated[str, typer.Option(help="modern, paper (SGD, 150 epochs of 600,000 signals) or follow-up (RMSprop).")]
SetSize = Annotated[int | None, typer.Option(min=1, help="Train repeatedly on this many signals, instead of new ones.")]
Hyperparameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Hyperparameter of the network: --set width=200. Repeatable."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace MODEL if it already exists.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the interrupted run that writes MODEL.")]
# Options allowed when resuming, and with the bundled network.
ON_RESUMING = {"resume", "output", "device", "threads", "as_json"}
ON_BUNDLING = {"dictionary", "output", "network", "minutes", "noise", "seed", "force", "as_json"}


def fit(
    context: typer.Context,
    dictionary: Dictionary = None,
    output: Output = Path("model.safetensors"),
    network: Network = "learned_sbl",
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Budget in minutes.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Budget in signals.")] = None,
    sparsity: Sparsity = None,
    amplitudes: Annotated[str, typer.Option(help="uniform, gaussian or unit.")] = "uniform",
    noise: Noise = 0.0,
    snr_db: Annotated[float | None, typer.Option(help="Signal-to-noise ratio instead of --noise.")] = None,
    loss: Loss = None,
    set_size: SetSize = None,
    preset: Preset = "modern",
    learning_rate: Annotated[float | None, typer.Option(min=0.0, help="Replaces that of the preset.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=2, help="Replaces that of the preset.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="bfloat16: hidden layers of residual train in half precision.")
    ] = None,
    hyperparameter: Hyperparameters = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and signals.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.")] = None,
    force: Force = False,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Create a model for one dictionary: the bundled network, optionally fine-tuned, or a trained network of the paper.

    While a network of the paper trains, the state of the run is in a checkpoint next to MODEL and, from the first
    validation on, the best weights so far are in MODEL. Ctrl-C saves the run and prints how to resume.

    Example: maxsparse fit Phi.npy -o model.safetensors

    Example: maxsparse fit Phi.npy -o residual.safetensors --network residual --minutes 30 --set width=200

    Several processes: torchrun --standalone --nproc-per-node 2 -m maxsparse fit Phi.npy --network residual --minutes 30
    """
    if output.suffix != ".safetensors":
        raise typer.BadParameter(f"{str(output)!r} does not end in .safetensors", param_hint="--output")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"folder {str(output.parent)!r} does not exist; create it first")
    if output.is_dir():
        raise typer.BadParameter(f"{str(output)!r} is a folder; give the name of a file", param_hint="--output")
    common = {"device": device, "n_threads": threads}
    if resume:
        _refuse_others(context, ON_RESUMING, "is already in the checkpoint; omit it with --resume")
        _report(lambda training, more: training.resume(output, **common, **more), output, common, as_json)
        return
    if dictionary is None:
        raise typer.BadParameter("is missing; give a dictionary file, or --resume", param_hint="PHI")
    check_name(NETWORKS, network, "--network")
    if network == BUNDLED:
        if output.exists() and not force:
            raise ValueError(f"{str(output)!r} already exists; choose another name, or replace it with --force")
        _refuse_others(context, ON_BUNDLING, "is only for the networks of the paper; select one with --network")
        _bundle(read_dictionary(dictionary), output, minutes or 0.0, noise, seed, as_json)
        return
    signals = {"sparsity": parse_sparsity(sparsity), "amplitudes": amplitudes, "noise": noise, "snr_db": snr_db}
    budget = {"minutes": minutes, "samples": samples, "set_size": set_size, "overwrite": force}
    hyperparameters = parse_pairs(hyperparameter or [])

    def train(training: Any, more: dict[str, Any]) -> Any:
        if preset not in training.PRESETS:
            raise typer.BadParameter(f"must be one of {', '.join(training.PRESETS)}", param_hint="--preset")
        changes = {"learning_rate": learning_rate, "batch_size": batch_size, "precision": precision}
        settings = training.preset_for(network, preset).but(**changes)
        details = {"loss": loss, "settings": settings, "hyperparameters": hyperparameters, "rng": seed}
        Phi = read_dictionary(dictionary)
        return training.fit(Phi, network, output=output, **signals, **budget, **details, **common, **more)

    _report(train, output, common, as_json)


def _refuse_others(context: typer.Context, known: set[str], why: str) -> None:
    """Raise an error for options that would be ignored."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in known and source is not None and source.name == "COMMANDLINE":
            label = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
            raise typer.BadParameter(why, param_hint=label)


def _bundle(Phi: Any, output: Path, minutes: float, noise: float, seed: int, as_json: bool) -> None:
    """Write a recoverer with the bundled network, fine-tuned to the dictionary for some minutes."""
    from maxsparse.recovery import SparseRecoverer

    model = SparseRecoverer(Phi, noise=noise, random_state=seed)
    if minutes:
        from maxsparse.training import DivergenceError, InterruptedTraining

        try:
            model.fit(minutes=minutes, progress=True)
        except DivergenceError as error:
            typer.secho(f"maxsparse: {error}; nothing was written", err=True, fg="red")
            raise typer.Exit(1) from error
        except InterruptedTraining as error:
            model.save(output)
            typer.secho(f"maxsparse: {error}; {output} has the weights so far", err=True, fg="red")
            raise typer.Exit(1) from error
    model.save(output)
    if as_json:
        print_json({"output": str(output), "network": "learned_sbl", "minutes": minutes})
    else:
        made = f"fine-tuned for {minutes:g} minutes" if minutes else "not fine-tuned; use --minutes for that"
        typer.echo(f"{output}: the bundled network, {made}.")


def _resume_command(output: Path, common: dict[str, Any]) -> str:
    """Return the command to resume, with the options that reproducibility depends on."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    start = ["torchrun", "--standalone", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    threads = [] if common["n_threads"] is None else ["--threads", str(common["n_threads"])]
    device = [] if common["device"] == "auto" else ["--device", common["device"]]
    return shlex.join([*start, "maxsparse", "fit", "--resume", "-o", str(output), *threads, *device])


def _report(train: Callable[[Any, dict[str, Any]], Any], output: Path, common: dict[str, Any], as_json: bool) -> None:
    """Train and print the result; of several processes only the first prints."""
    from maxsparse import training  # torch: loaded only when used

    first = int(os.environ.get("RANK", "0")) == 0
    more = {
        "progress": True,
        "callback": None if as_json else _print_line,
        "resume_command": _resume_command(output, common),
    }
    try:
        _, report = train(training, more)
    except (training.DivergenceError, training.InterruptedTraining) as error:
        if first or isinstance(error, training.DivergenceError):
            typer.secho(f"maxsparse: {error}", err=True, fg="red")
        raise typer.Exit(1) from error
    if first and as_json:
        figures = {"samples": report.samples, "seconds": report.seconds, "best": report.best}
        print_json({"output": str(output), **figures, "history": report.history})
    elif first:
        typer.echo(
            f"{output}: {report.samples:,} signals in {report.seconds:.0f} s; best after {report.best['samples']:,}."
        )


def _print_line(report: Report) -> None:
    entry = report.history[-1]
    accuracies = "  ".join(
        f"{label} " + " ".join(f"{value:4.2f}" for value in entry[key])
        for key, label in (("strict", "s-acc"), ("loose", "l-acc"))
    )
    typer.echo(f"{report.samples:>11,} signals  loss {entry['loss']:8.4f}  {accuracies}")
