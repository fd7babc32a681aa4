"""``maxsparse directions``: from snapshots or a recording to the directions of the sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse.cli.arguments import Json
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.fields.arrays import Array, Directions

__all__ = ["directions"]


def directions(
    source: Annotated[
        Path, typer.Argument(metavar="SNAPSHOTS", help="Complex snapshots as rows (.npy, .npz, .mat), or a .wav file.")
    ],
    linear: Annotated[
        float | None, typer.Option(help="Sensors in a row: their spacing, in wavelengths (with --speed: metres).")
    ] = None,
    circular: Annotated[float | None, typer.Option(help="Sensors on a circle: its radius.")] = None,
    positions: Annotated[
        Path | None, typer.Option(help="File of positions, a row per sensor: x, x y or x y z.")
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Speed of the waves in m/s: 343 for sound in air.")] = None,
    sources: Annotated[int | None, typer.Option(help="Number of sources, where it is known.")] = None,
    noise: Annotated[float | None, typer.Option(help="Standard deviation of the noise, where it is known.")] = None,
    azimuth: Annotated[str | None, typer.Option(metavar="LOW:HIGH", help="Field of view in degrees.")] = None,
    elevation: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Look for elevations too, in this range of degrees.")
    ] = None,
    calibration: Annotated[float, typer.Option(help="Relative error of the sensors' gains and phases.")] = 0.0,
    band: Annotated[str | None, typer.Option(metavar="LOW:HIGH", help="Frequencies of a recording, in Hz.")] = None,
    frequency: Annotated[float | None, typer.Option(help="Frequency of narrow-band snapshots in Hz.")] = None,
    key: Annotated[str | None, typer.Option(help="Name of the array in a .npz or .mat file.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Picture to write: .png, .svg or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Find how many sources an array of sensors hears, and where they are.

    Example: maxsparse directions snapshots.npy --linear 0.5 -o directions.png
    """
    from maxsparse.fields import arrays

    given = [option for option in (linear, circular, positions) if option is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of --linear SPACING, --circular RADIUS and --positions FILE")
    if output is not None and output.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"{str(output)!r} is not .png, .svg or .pdf", param_hint="--output")
    for option, value in (("--linear", linear), ("--circular", circular), ("--speed", speed)):
        if value is not None and not value > 0:
            raise typer.BadParameter(f"must be positive, got {value:g}", param_hint=option)
    if source.suffix.lower() == ".wav" and source.is_file():
        if speed is None:
            raise typer.BadParameter("a recording needs the speed of the waves: give --speed 343 for sound in air")
        if frequency is not None:
            raise typer.BadParameter(
                "a recording has its own frequencies: choose them with --band LOW:HIGH", param_hint="--frequency"
            )
    limits = {"azimuth": _range(azimuth, "--azimuth"), "elevation": _range(elevation, "--elevation")}
    recording = arrays.read_snapshots(source, key=key, band=_range(band, "--band"))
    frequencies: Any = recording.frequencies if frequency is None else [frequency]
    array = _array(recording.snapshots.shape[-1], linear, circular, positions, speed)
    found = arrays.estimate_directions(
        recording.snapshots,
        array,
        sources=sources,
        noise=noise,
        frequencies=frequencies,
        calibration=calibration,
        window=recording.window,
        **limits,
    )
    if output is not None:
        _draw(found, output)
    if as_json:
        numbers = {
            "confidence": found.confidence,
            "outside": found.outside,
            "noise": found.noise,
            "output": None if output is None else str(output),
        }
        print_json({"sources": found.table(), **numbers})
        return
    _say(found, elevation is not None)
    if output is not None:
        typer.echo(f"Wrote {output}")


def _array(n: int, linear: Any, circular: Any, positions: Any, speed: Any) -> Array:
    from maxsparse.fields import arrays

    if linear is not None:
        return arrays.linear(n, linear, speed=speed)
    return arrays.read_array(positions, speed=speed) if circular is None else arrays.circular(n, circular, speed=speed)


def _range(text: str | None, option: str) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not LOW:HIGH", param_hint=option) from error
    return low, high


def _say(found: Directions, two: bool) -> None:
    number = "no source" if not len(found) else f"{len(found)} source{'s' if len(found) > 1 else ''}"
    typer.echo(f"{number[0].upper()}{number[1:]}, confidence {found.confidence:.2f}")
    for k, row in enumerate(found.table()):
        where = f"azimuth {row['azimuth']:8.2f}° ± {row['azimuth_error']:.2f}°"
        if two:
            where += f", elevation {row['elevation']:7.2f}° ± {row['elevation_error']:.2f}°"
        typer.echo(f"  {where}, power {row['power_db']:6.1f} dB, probability {row['probability']:.2f}")
        if found.ambiguous[k]:
            typer.echo(f"    the array cannot tell it from {found.same_as(k)}")
    if found.outside:
        typer.echo(f"  {found.outside} more outside the field of view")
    elif not len(found):
        typer.echo("  As many sources as sensors, or more, can look like noise: --noise tells them apart")


def _draw(found: Directions, output: Path) -> None:
    from matplotlib.figure import Figure

    from maxsparse._core.atomic import atomic_write

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    found.plot(axes=figure.subplots())
    with atomic_write(output) as stream:
        figure.savefig(stream, format=output.suffix[1:].lower(), dpi=150)
