"""``maxsparse stereo``: from photographs to normals, depth, a mesh and a page to relight the object."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from maxsparse._core.atomic import atomic_write
from maxsparse._core.registry import STEREO
from maxsparse.cli.arguments import Json, check_name, one_of, parse_range
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.stereo import LightEstimate, NormalMap

__all__ = ["app"]


class _EstimateByDefault(TyperGroup):
    """Reads ``maxsparse stereo FOLDER`` as ``maxsparse stereo estimate FOLDER``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["estimate", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_EstimateByDefault,
    no_args_is_help=True,
    help="Photometric stereo. `maxsparse stereo FOLDER -o out` is short for `maxsparse stereo estimate FOLDER -o out`.",
)


@app.command()
def estimate(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Photographs and their lights, or a .npy/.npz file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("stereo-out"),
    method: Annotated[str, typer.Option(help=one_of(STEREO), autocompletion=lambda: list(STEREO))] = "auto",
    material: Annotated[
        bool | None,
        typer.Option(help="Divide the readings by the common material of all pixels; by default only with auto."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Train for these lights, once: fine-tunes the network of auto; with network, 10 by default."),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="File of the network that auto or network uses.")] = None,
    outliers: Annotated[
        str | None, typer.Option(help="network: numbers of outliers to train on, LOW:HIGH.", show_default=False)
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="network: mean of the outliers, relative to the brightest reading; 0.")
    ] = None,
    variance: Annotated[float | None, typer.Option(help="network: variance of the outliers; 0.25.")] = None,
    lights: Annotated[
        Path | None,
        typer.Option(
            help="File of light directions, y up and z to the camera; `unknown` estimates directions and intensities "
            "from the photographs."
        ),
    ] = None,
    intensities: Annotated[
        Path | None,
        typer.Option(help="File of the lights' intensities, one row each; `unknown` estimates them."),
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(help="Image that is white on the object; `auto` finds what is brighter than the background."),
    ] = None,
    camera: Annotated[Path | None, typer.Option(help="File of the 3×3 camera matrix, for perspective depth.")] = None,
    perspective: Annotated[
        bool, typer.Option(help="Use --camera for the normals too, for wide lenses; without the common material.")
    ] = False,
    positions: Annotated[
        Path | None,
        typer.Option(
            help="File of the positions of near lamps in mm, instead of directions: camera at the origin, x right, "
            "y up, z against its view; needs --camera and --distance."
        ),
    ] = None,
    distance: Annotated[
        float | None,
        typer.Option(help="Distance of the object from the camera in mm, for depth and meshes in mm; needs --camera."),
    ] = None,
    lamp_distance: Annotated[
        str | None,
        typer.Option(
            help="Distance of the lamps from the object divided by the width of the view there; `far`, or `estimate` "
            "from the photographs, the default of auto.",
            metavar="NUMBER|far|estimate",
            show_default=False,
        ),
    ] = None,
    gamma: Annotated[float, typer.Option(help="2.2 for photographs that are not linear.")] = 1.0,
    key: Annotated[str | None, typer.Option(help="Name of the images in a .npz file.")] = None,
    mesh: Annotated[
        str, typer.Option(help="Formats of the mesh, separated by commas; empty for none.")
    ] = "ply,obj,glb",
    viewer: Annotated[bool, typer.Option(help="Write viewer.html.")] = True,
    as_json: Json = False,
) -> None:
    """Estimate normals, depth and a mesh from photographs under several lights.

    Writes normals, confidence and albedo as .npy and 16-bit .png, depth as .npy, the mesh, and viewer.html, a page
    to relight the object; lights.txt and intensities.txt if they were estimated.

    Example: maxsparse stereo photographs -o out

    Example, for a hand-held lamp: maxsparse stereo photographs --lights unknown -o out
    """
    import numpy as np

    from maxsparse import stereo
    from maxsparse.stereo.output import check_request, write_png

    check_name(STEREO, method, "--method")
    begun = time.perf_counter()
    formats = [word.strip() for word in mesh.split(",") if word.strip()]
    with _spoken_warnings():
        K = None if camera is None else stereo.read_lights(camera)
        if perspective and camera is None:
            raise ValueError("--perspective needs --camera")
        if positions is not None and lights is None:
            lights = Path("unknown")  # positions replace them
        scene = stereo.load(source, lights=lights, intensities=intensities, mask=mask, gamma=gamma, key=key)
        if not as_json:
            typer.echo(f"{scene!r}")
        check_request(output, K=K, meshes=formats, distance=distance)
        law = {"outliers": parse_range(outliers, "--outliers"), "mean": mean, "variance": variance}
        given = {"minutes": minutes, "model": model, **law}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for name, given_file in (("lights", lights), ("intensities", intensities)):
            if str(given_file) == "unknown" and positions is None:
                options[name] = "estimate"
        if perspective or positions is not None:
            options |= {"camera": K, "distance": distance}
            options["positions"] = None if positions is None else stereo.read_lights(positions)
        if lamp_distance is not None:
            options["lamp_distance"] = _parse_lamp_distance(lamp_distance)
        result = stereo.estimate_normals(scene, method, material=material, progress=True, **options)
    written = stereo.write_all(result, output, K=K, meshes=formats, viewer=viewer, distance=distance)
    if str(mask) == "auto":
        written.append(output / "mask.png")
        write_png(np.where(scene.mask, 255, 0).astype(np.uint8), written[-1])
    seconds = time.perf_counter() - begun
    if as_json:
        print_json(_figures(result) | {"seconds": seconds, "files": [str(path) for path in written]})
        return
    _report(result)
    typer.echo(f"Wrote {', '.join(path.name for path in written)} to {output}/ in {seconds:.1f} s")
    if viewer:
        typer.echo(f"Open {output / 'viewer.html'} in a browser and drag the light.")


@app.command()
def calibrate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Photographs of a chrome ball, one per light, and its mask.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("lights.txt"),
    mask: Annotated[Path | None, typer.Option(help="Image that is white on the ball.")] = None,
    as_json: Json = False,
) -> None:
    """Find the light directions from photographs of a chrome ball.

    Example: maxsparse stereo calibrate chrome -o photographs/lights.txt
    """
    from maxsparse import stereo

    found = stereo.calibrate_lights(folder, mask=mask)
    rows = "".join(f"{x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in found.lights)
    with atomic_write(output) as stream:
        stream.write(("# light directions: x right, y up, z to the camera\n" + rows).encode())
    if as_json:
        lights = [
            {"photograph": str(name), "light": list(map(float, L))}
            for name, L in zip(found.names, found.lights, strict=True)
        ]
        ball = {"column": found.center[0], "row": found.center[1], "radius": found.radius}
        print_json({"output": str(output), "ball": ball, "lights": lights})
        return
    typer.echo(f"Ball at column {found.center[0]:.1f}, row {found.center[1]:.1f}, radius {found.radius:.1f} pixels.")
    for name, (x, y, z) in zip(found.names, found.lights, strict=True):
        typer.echo(f"{name}: {x:+.4f} {y:+.4f} {z:+.4f}")
    typer.echo(f"Wrote {output}")


def _parse_lamp_distance(text: str) -> float | str:
    if text in ("far", "estimate"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--lamp-distance must be a number, 'far' or 'estimate', got {text!r}") from None


def _figures(result: NormalMap) -> dict[str, Any]:
    return {
        "method": result.method,
        "pixels": int(result.mask.sum()),
        "confident": float((result.confidence[result.mask] > 0.5).mean()),
        "mean_angular_error": result.mean_error,
        "lamp_distance": result.lamp_distance if math.isfinite(result.lamp_distance) else None,
    } | ({} if result.light_estimate is None else {"lights": _light_figures(result.light_estimate)})


def _light_figures(estimate: LightEstimate) -> dict[str, Any]:
    return {
        "directions": estimate.lights.tolist(),
        "intensities": estimate.intensities.tolist(),
        "expected_error": estimate.error.tolist(),
        "determined": estimate.determined,
        "reasons": list(estimate.reasons),
    }


def _report(result: NormalMap) -> None:
    figures = _figures(result)
    typer.echo(f"Method {result.method}: {figures['confident']:.0%} of the pixels have a confidence above one half.")
    if result.light_estimate is not None:
        found = result.light_estimate
        doubt = "" if found.determined else "; the photographs do not determine them, see the warning"
        typer.echo(f"Lights estimated from the photographs, expected error {found.error.mean():.1f}°{doubt}.")
    if math.isfinite(result.lamp_distance):
        typer.echo(f"The lamps are {result.lamp_distance:.1f} widths of the picture away, not distant.")
    if result.mean_error is not None:
        typer.echo(f"Mean angular error {result.mean_error:.2f}° against the true normals.")


class _spoken_warnings(warnings.catch_warnings):
    """Print each warning in one line, without its source code."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.showwarning = lambda message, *rest, **more: typer.secho(f"warning: {message}", err=True, fg="yellow")
