"""Front ends in the words of a field: spectra of mixtures, arrays of sensors."""

from __future__ import annotations

from maxsparse.fields import arrays, spectra

__all__ = ["arrays", "spectra"]
