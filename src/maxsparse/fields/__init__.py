"""Front ends in the words of a field: directions of waves for arrays of sensors."""

from __future__ import annotations

from maxsparse.fields import arrays

__all__ = ["arrays"]
