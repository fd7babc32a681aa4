"""``maxsparse unmix``: from a library and measured spectra to a report of their materials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from maxsparse.cli.arguments import Json
from maxsparse.cli.printing import print_json

__all__ = ["unmix"]

SHOWN = 10  # spectra on the terminal
NONE = "none of the library"  # the verdict on a spectrum that nothing explains


def unmix(
    library: Annotated[Path, typer.Argument(help="Pure spectra: .csv, .tsv, .jdx, .hdr (ENVI), .npz, .mat, .npy.")],
    spectra: Annotated[Path, typer.Argument(help="Measured spectra, the same formats; or, with --cube, an image.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the report.")] = Path("unmix-out"),
    cube: Annotated[bool, typer.Option("--cube", help="An image: ENVI (.hdr) or .npy (rows, columns, bands).")] = False,
    noise: Annotated[str, typer.Option(help="auto, bands, or the standard deviation of the noise.")] = "auto",
    bad: Annotated[str | None, typer.Option(help="Bands to leave out, from 0, such as 0-3,104-110.")] = None,
    baseline: Annotated[int, typer.Option(help="Degree of a baseline that may be added; -1 for none.")] = -1,
    gain: Annotated[int, typer.Option(help="Degree of a polynomial that may multiply a spectrum.")] = 0,
    shift: Annotated[bool, typer.Option("--shift", help="Wavelengths may be shifted by a fraction of a band.")] = False,
    sum_to_one: Annotated[bool, typer.Option("--sum-to-one", help="Abundances sum to one.")] = False,
    budget: Annotated[
        str, typer.Option(help="Search effort: none, fast, normal or thorough; normal for images, else thorough.")
    ] = "",
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="For --cube: unmix on the workers of this dask scheduler.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find which materials of a library are in spectra, and how much of each.

    Writes report.html, one file that needs no network, and materials.csv; for an image, report.html and maps as arrays.

    Example: maxsparse unmix library.csv spectra.csv -o report
    """
    from maxsparse.fields import spectra as front

    pure = front.read_spectra(library)
    options: dict[str, Any] = {"noise": _noise(noise), "baseline": baseline, "gain": gain, "shift": shift}
    options["sum_to_one"] = sum_to_one
    options |= {"budget": budget or ("normal" if cube else "thorough"), "progress": True}
    if scheduler is not None and not cube:
        raise typer.BadParameter("is for images: add --cube", param_hint="--scheduler")
    if cube:
        bands = None if bad is None else _bands(bad)
        _tell_maps(
            front.unmix_cube(pure, spectra, output, bad_bands=bands, scheduler=scheduler, **options), output, as_json
        )
        return
    found = front.unmix(pure, front.read_spectra(spectra), bad_bands=None if bad is None else _bands(bad), **options)
    page = found.report(output)
    if as_json:
        spectra_found = [_figures(found, i) for i in range(len(found))]
        print_json({"report": str(page), "hints": _hints(found), "spectra": spectra_found})
        return
    for i in range(min(len(found), SHOWN)):
        _tell(found, i)
    if len(found) > SHOWN:
        typer.echo(f"… and {len(found) - SHOWN} more")
    for hint in _hints(found):
        typer.echo(f"Hint: {hint}")
    typer.echo(f"Open {page} in a browser.")


def _tell(found: Any, i: int) -> None:
    """Print the materials of spectrum i; if nothing fits, as an attempt without probabilities."""
    verdict = found.verdict(i)
    attempt = verdict == NONE
    sure = "; best attempt:" if attempt else f", confidence {found.confidence[i]:.2f}"
    typer.echo(f"{found.spectra.names[i]}: {verdict}{sure if found.abundance[i].any() else ''}")
    for material in found.materials(i):
        others = len(material.alternatives)
        one_of = f", one of {others} that cannot be told apart" if others > 1 else ""
        share = f"{material.abundance:.4g} ± {material.error:.2g}"
        sure = "" if attempt else f", probability {material.probability:.2f}{one_of}"
        typer.echo(f"  {material.name}: {share}{sure}")


def _tell_maps(maps: Any, output: Path, as_json: bool) -> None:
    names = [maps.names[j] for j in maps.strongest()]
    counts = {word: int((maps.verdict == number).sum()) for number, word in enumerate(("fits", "incomplete", NONE))}
    if as_json:
        shape = list(maps.abundance.shape)
        print_json({"output": str(output), "shape": shape, "strongest": names, "verdicts": counts})
        return
    typer.echo(f"Most abundant: {', '.join(names) or 'no material'}")
    typer.echo(f"Pixels: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    typer.echo(f"Wrote {output}/report.html, maps.png and arrays")


def _hints(found: Any) -> list[str]:
    """Return hints with the options of the command line."""
    hints: list[str] = found.hints()
    for call, option in (("baseline=1", "--baseline 1"), ("gain=1", "--gain 1"), ("shift=True", "--shift")):
        hints = [hint.replace(call, option) for hint in hints]
    return hints


def _figures(found: Any, i: int) -> dict[str, Any]:
    materials = [material._asdict() | {"alternatives": dict(material.alternatives)} for material in found.materials(i)]
    name, verdict = found.spectra.names[i], found.verdict(i)
    if verdict == NONE:
        shares = [{key: material[key] for key in ("name", "abundance", "error")} for material in materials]
        return {"name": name, "verdict": verdict, "materials": [], "best_attempt": shares}
    return {"name": name, "verdict": verdict, "confidence": float(found.confidence[i]), "materials": materials}


def _noise(text: str) -> float | str:
    if text in ("auto", "bands"):
        return text
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is neither auto, bands nor a number", param_hint="--noise") from error


def _bands(text: str) -> list[int]:
    """Read numbers and ranges such as 0-3,17."""
    bands: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or len(part) > 20:
            raise typer.BadParameter(f"{part!r} is neither a band nor a range such as 0-3", param_hint="--bad")
        if int(last or first) > 10_000_000:
            raise typer.BadParameter(f"there is no band {last or first}", param_hint="--bad")
        bands += range(int(first), int(last or first) + 1)
    return bands
