"""A reader of JCAMP-DX files: infrared, Raman, UV and mass spectra as text.

Tables of equal steps, ``(X++(Y..Y))``, plain or packed (PAC, SQZ, DIF, DUP), and of pairs, ``(XY..XY)``. One file may
hold several blocks.

R. S. McDonald, P. A. Wilks, "JCAMP-DX: a standard form for exchange of infrared spectra in computer readable form",
Applied Spectroscopy 42(1), 1988.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Block", "read_jcamp"]

LARGEST = 50_000_000  # bytes of a file, and values of a spectrum
SQUEEZED = {letter: str(value) for value, letter in enumerate("@ABCDEFGHI")}
SQUEEZED |= {letter: f"-{value + 1}" for value, letter in enumerate("abcdefghi")}
DIFFERENCE = {letter: str(value) for value, letter in enumerate("%JKLMNOPQR")}
DIFFERENCE |= {letter: f"-{value + 1}" for value, letter in enumerate("jklmnopqr")}
REPEATED = {letter: str(value + 1) for value, letter in enumerate("STUVWXYZ")} | {"s": "9"}
TOKEN = re.compile(r"[@A-Ia-i%J-Rj-rS-Zs]\d*|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]\d+)?|\?")


class Block(NamedTuple):
    """One spectrum of a file."""

    title: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    unit: str | None  # of x, as the file calls it


def read_jcamp(path: Path) -> list[Block]:
    """Return all spectra of a file."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes")
    text = path.read_text(encoding="utf-8", errors="replace")
    if "##" not in text:
        raise ValueError("it has no ##LABEL= lines")
    found: list[Block] = []
    labels: dict[str, str] = {}
    for label, value in re.findall(r"^\s*##([^=\n]*)=(.*?)(?=^\s*##|\Z)", text, flags=re.MULTILINE | re.DOTALL):
        name = re.sub(r"[\s_/-]", "", label).upper()
        if name == "TITLE":
            labels = {}
        if name == "END":
            labels = {}
            continue
        labels[name] = value
        if name in ("XYDATA", "XYPOINTS", "PEAKTABLE"):
            title = " ".join(labels.get("TITLE", "").split()) or path.stem
            try:
                unit = labels.get("XUNITS", "").partition("$$")[0].strip()
                found.append(Block(title, *_table(labels, name), unit or None))
            except ValueError as error:
                raise ValueError(f"spectrum {title!r}: {error}") from error
    if not found:
        raise ValueError("it holds no spectrum: neither ##XYDATA= nor ##XYPOINTS=")
    return found


def _table(labels: dict[str, str], name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    form, _, body = labels[name].partition("\n")
    form = re.sub(r"\s", "", form.partition("$$")[0]).upper()
    lines = [line.partition("$$")[0].strip() for line in body.splitlines()]
    lines = [line for line in lines if line]
    if form.startswith("(XY..XY)"):
        x, y = _pairs(lines)
        return x * _number(labels, "XFACTOR", 1.0), y * _number(labels, "YFACTOR", 1.0)
    if not form.startswith("(X++(Y..Y))"):
        raise ValueError(f"its table has the form {form[:40]!r}; (X++(Y..Y)) and (XY..XY) are supported")
    y = _steps(lines) * _number(labels, "YFACTOR", 1.0)
    first, last = _number(labels, "FIRSTX"), _number(labels, "LASTX")
    count = round(_number(labels, "NPOINTS", float(y.size)))
    if count != y.size:
        raise ValueError(f"##NPOINTS= says {count} values, the table has {y.size}")
    return np.linspace(first, last, y.size), y


def _pairs(lines: list[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    numbers = [_float(word) for line in lines for word in re.split(r"[,;\s]+", line) if word]
    if len(numbers) % 2 or not numbers:
        raise ValueError(f"its table of pairs has {len(numbers)} numbers")
    return np.array(numbers[::2]), np.array(numbers[1::2])


def _steps(lines: list[str]) -> NDArray[np.float64]:
    """Return the y values of lines that begin with an x; packed forms are unpacked."""
    values: list[float] = []
    check = False  # whether the last line ended with a difference: the next one repeats its last value
    for line in lines:
        tokens = TOKEN.findall(line)
        if re.sub(r"[\s,]", "", TOKEN.sub("", line)):
            raise ValueError(f"cannot read the line {line[:40]!r} of its table")
        y: list[float] = []
        step: float | None = None
        for token in tokens[1:]:  # the first is x
            if token[0] in REPEATED:
                times = int(REPEATED[token[0]] + token[1:]) - 1
                if not y or len(values) + len(y) + times > LARGEST:
                    raise ValueError(f"cannot read the repetition {token[:12]!r} of its table")
                y += [y[-1] + (step or 0.0) * (k + 1) for k in range(times)]
            elif token[0] in DIFFERENCE:
                if not y:
                    raise ValueError(f"the line {line[:40]!r} of its table begins with a difference")
                step = float(DIFFERENCE[token[0]] + token[1:])
                y.append(y[-1] + step)
            else:
                step = None
                y.append(np.nan if token == "?" else _float(SQUEEZED.get(token[0], token[0]) + token[1:]))
        if check and y and values:
            if abs(y[0] - values[-1]) > 1e-6 * max(1.0, abs(y[0])):
                raise ValueError(f"the check value {y[0]:g} of the line {line[:30]!r} does not match {values[-1]:g}")
            y = y[1:]
        values += y
        check = step is not None
    if not values:
        raise ValueError("its table is empty")
    return np.array(values)


def _number(labels: dict[str, str], name: str, default: float | None = None) -> float:
    if name not in labels:
        if default is None:
            raise ValueError(f"##{name}= is missing")
        return default
    return _float(labels[name].partition("$$")[0].strip())


def _float(word: str) -> float:
    try:
        value = float(word)
    except ValueError as error:
        raise ValueError(f"{word[:20]!r} is not a number") from error
    if not np.isfinite(value):
        raise ValueError(f"{word[:20]!r} is not a finite number")
    return value
