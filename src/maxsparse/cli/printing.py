"""Output of commands: text for people on standard error, JSON for programs on standard output."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from maxsparse.streaming import Summary

__all__ = ["print_json", "say", "say_summary", "say_warning"]

UNSURE_SHARE = 0.1  # of answers without confidence, from which it is worth a warning


def say(text: str) -> None:
    """Print a message on standard error: standard output may be a pipe that expects only results."""
    typer.echo(text, err=True)


def print_json(figures: dict[str, Any]) -> None:
    """Print figures as JSON; values that JSON does not support become null."""
    typer.echo(json.dumps(_plain(figures), indent=1, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def say_summary(summary: Summary, output: str, *, as_json: bool, certifies: bool) -> None:
    """Report a finished run."""
    new = summary.signals - summary.resumed
    rate = new / max(summary.seconds, 1e-9)
    if as_json:
        print_json({"output": output, **summary.as_dict(), "signals_per_second": rate})
        return
    N = max(summary.signals, 1)
    lines = [
        f"{summary.signals:,} signals × {summary.atoms:,} atoms in {_duration(summary.seconds)}, {rate:,.0f} per second"
    ]
    if summary.resumed:
        lines.append(f"{summary.resumed:,} of them from an earlier run")
    if certifies:
        lines.append(f"certified to be the sparsest: {summary.certified:,} ({summary.certified / N:.2%})")
    lines.append(f"converged: {summary.converged:,} ({summary.converged / N:.2%})")
    if not math.isnan(summary.mean_confidence) and summary.certified < summary.signals:
        lines.append(f"mean confidence: {summary.mean_confidence:.2f}, below 0.5 in {summary.unsure:,}")
    common = sorted(summary.nonzeros, key=lambda k: -summary.nonzeros[k])[:6]
    lines.append("nonzeros: " + ", ".join(f"{k} in {summary.nonzeros[k] / N:.1%}" for k in sorted(common)))
    lines.append(f"largest residual: {summary.largest_residual:.2e}")
    if summary.bad:
        lines.append(f"no answer, because of NaN or infinite numbers: {summary.bad:,}")
    say("\n".join([f"{output}", *(f"  {line}" for line in lines)]))
    if summary.unsure > UNSURE_SHARE * N:
        say_warning(
            f"{summary.unsure:,} of {summary.signals:,} answers are more likely wrong than right: too many nonzeros or "
            "too much noise for this dictionary. The column confidence tells which; --budget thorough searches longer"
        )


def say_warning(text: str) -> None:
    """Print a warning in one line."""
    typer.secho(f"maxsparse: warning: {text}", err=True, fg="yellow")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
