"""``maxsparse export``: a model for use without maxsparse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsparse.cli.arguments import Json, is_model
from maxsparse.cli.printing import print_json

if TYPE_CHECKING:
    from maxsparse.export import Exported

FORMATS = ("onnx",)


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file of `maxsparse fit` or of SparseRecoverer.save.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write. (default: MODEL with .onnx)")
    ] = None,
    format: Annotated[str, typer.Option(help="onnx.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="8-bit layers; prints the accuracy before and after.")] = False,
    as_json: Json = False,
) -> None:
    """Write a model as one ONNX file: signals y (batch, n) in, scores (batch, m) out, preprocessing included.

    The file is checked with onnxruntime against the model before it is written. Needs the extra `export`.

    Example: maxsparse export model.safetensors -o model.onnx
    """
    if format not in FORMATS:
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(FORMATS)}", param_hint="--format")
    if not is_model(model):
        raise typer.BadParameter(
            f"{str(model)!r} is not a model file (.safetensors); create one with `maxsparse fit PHI -o MODEL`",
            param_hint="MODEL",
        )
    target = model.with_suffix(".onnx") if output is None else output
    if target.resolve() == model.resolve():
        raise typer.BadParameter("would overwrite MODEL", param_hint="--output")
    from maxsparse.export import to_onnx  # torch: loaded only when used

    exported = to_onnx(model, target, int8=int8)
    if as_json:
        print_json(_figures(exported))
    else:
        typer.echo(_as_text(exported))


def _figures(exported: Exported) -> dict[str, Any]:
    accuracy = {str(d): {"model": model, "int8": file} for d, (model, file) in exported.accuracy.items()}
    figures = {"network": exported.network, "n": exported.n, "m": exported.m, "bytes": exported.size}
    return {"path": str(exported.path), **figures, "error": exported.error, "accuracy": accuracy}


def _as_text(exported: Exported) -> str:
    lines = [
        f"{exported.path}: {exported.network}, {exported.size / 1e3:,.0f} kB, y (batch, {exported.n}) → "
        f"scores (batch, {exported.m}). onnxruntime agrees to {exported.error:.0e}."
    ]
    if exported.accuracy:
        lines += ["Share of signals whose d best scores are the support:", f"{'d':>4}  {'model':>6}  {'int8':>6}"]
        lines += [f"{d:>4}  {model:6.3f}  {file:6.3f}" for d, (model, file) in exported.accuracy.items()]
    return "\n".join(lines)
