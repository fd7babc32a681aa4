"""Front ends in the words of a field: spectra of mixtures, arrays of sensors, sources in the brain."""

from __future__ import annotations

from maxsparse.fields import arrays, brain, spectra

__all__ = ["arrays", "brain", "spectra"]
