"""``maxsparse fit``: train a network for a dictionary, with checkpoints, on one process or many."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse.cli.arguments import Json, parse_pairs, parse_sparsity, read_dictionary
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.training import Report


def fit(
    dictionary: Annotated[
        Path | None, typer.Argument(metavar="PHI", help="Dictionary (n, m): .npy, .npz, .mat or .csv.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write, .safetensors.")
    ] = Path("model.safetensors"),
    network: Annotated[
        str,
        typer.Option(
            help="residual, ista_net, iht_net or lstm; learned_sbl tunes the bundled one to PHI (--minutes alone)."
        ),
    ] = "residual",
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Budget in minutes.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Budget in signals.")] = None,
    sparsity: Annotated[
        str | None, typer.Option(metavar="D|LOW:HIGH", help="Nonzeros of the training signals. (default: 1:n/2)")
    ] = None,
    amplitudes: Annotated[str, typer.Option(help="uniform, gaussian or unit.")] = "uniform",
    noise: Annotated[float, typer.Option(min=0.0, help="Standard deviation of noise on the signals.")] = 0.0,
    snr_db: Annotated[float | None, typer.Option(help="Signal-to-noise ratio instead of --noise.")] = None,
    loss: Annotated[str | None, typer.Option(help="softmax, sigmoid or least_squares.")] = None,
    set_size: Annotated[
        int | None, typer.Option(min=1, help="Train on that many signals again and again, instead of fresh ones.")
    ] = None,
    preset: Annotated[str, typer.Option(help="modern, or paper (SGD, 150 epochs of 600,000 signals).")] = "modern",
    learning_rate: Annotated[float | None, typer.Option(min=0.0, help="Instead of the preset's.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=2, help="Instead of the preset's.")] = None,
    hyperparameter: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Of the network: --set width=200. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and signals.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the interrupted run that writes MODEL.")] = False,
    as_json: Json = False,
) -> None:
    """Train a network to recover sparse signals of one dictionary.

    The best weights so far are in MODEL all the time, the state of the run in a checkpoint beside it. Ctrl-C saves and
    says how to go on.

    Example: maxsparse fit Phi.npy -o model.safetensors --network residual --minutes 30 --set width=200

    Several processes: torchrun --standalone --nproc-per-node 2 -m maxsparse fit Phi.npy -o m.safetensors --minutes 30
    """
    if network == "learned_sbl" and not resume:
        _tune(dictionary, output, minutes, noise, seed, as_json)
        return
    from maxsparse import training  # torch: loaded only when used

    first = int(os.environ.get("RANK", "0")) == 0
    common: dict[str, Any] = {
        "device": device,
        "n_threads": threads,
        "progress": True,
        "callback": None if as_json else _print_line,
        "resume_command": shlex.join(["maxsparse", "fit", "--resume", "-o", str(output)]),
    }
    try:
        if resume:
            if dictionary is not None:
                raise typer.BadParameter(
                    "everything is in the checkpoint; leave PHI away with --resume", param_hint="PHI"
                )
            _, report = training.resume(output, **common)
        else:
            if dictionary is None:
                raise typer.BadParameter("which dictionary? Give a file, or --resume", param_hint="PHI")
            if preset not in training.PRESETS:
                raise typer.BadParameter(f"known are {', '.join(training.PRESETS)}", param_hint="--preset")
            from maxsparse.dictionaries import load

            settings = training.PRESETS[preset].but(learning_rate=learning_rate, batch_size=batch_size)
            _, report = training.fit(
                load(dictionary),
                network,
                sparsity=parse_sparsity(sparsity),
                amplitudes=amplitudes,
                noise=noise,
                snr_db=snr_db,
                loss=loss,
                set_size=set_size,
                settings=settings,
                hyperparameters=parse_pairs(hyperparameter or []),
                output=output,
                rng=seed,
                minutes=minutes,
                samples=samples,
                **common,
            )
    except training.DivergenceError as error:
        typer.secho(f"maxsparse: {error}", err=True, fg="red")
        raise typer.Exit(1) from error
    except training.InterruptedTraining as stop:
        if first:
            typer.secho(f"maxsparse: {stop}", err=True)
        raise typer.Exit(130) from stop
    if first and as_json:
        figures = {"samples": report.samples, "seconds": report.seconds, "best": report.best}
        print_json({"output": str(output), **figures, "history": report.history})
    elif first:
        typer.echo(
            f"{output}: {report.samples:,} signals in {report.seconds:.0f} s; best after {report.best['samples']:,}."
        )


def _tune(dictionary: Path | None, output: Path, minutes: float | None, noise: float, seed: int, as_json: bool) -> None:
    """Tune the bundled network to a dictionary and write a recoverer."""
    if dictionary is None:
        raise typer.BadParameter("which dictionary? Give a file", param_hint="PHI")
    if not minutes:
        raise typer.BadParameter("say how long to tune learned_sbl, in minutes", param_hint="--minutes")
    from maxsparse.recovery import SparseRecoverer

    model = SparseRecoverer(read_dictionary(dictionary), noise=noise, random_state=seed)
    model.fit(minutes=minutes).save(output)
    if as_json:
        print_json({"output": str(output), "network": "learned_sbl", "minutes": minutes})
    else:
        typer.echo(f"{output}: the bundled network, tuned for {minutes:g} minutes.")


def _print_line(report: Report) -> None:
    entry = report.history[-1]
    accuracies = "  ".join(
        f"{label} " + " ".join(f"{value:4.2f}" for value in entry[key])
        for key, label in (("strict", "s-acc"), ("loose", "l-acc"))
    )
    typer.echo(f"{report.samples:>11,} signals  loss {entry['loss']:8.4f}  {accuracies}")
