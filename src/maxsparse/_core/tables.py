"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["html_table"]


def html_table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a title and a table as HTML; every text is escaped, and the lines of the title are kept."""
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    above = escape(title).replace("\n", "<br>")
    return f"<p>{above}</p><table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
