"""Units of wavelengths: what files call them, and how they convert."""

from __future__ import annotations

import re

__all__ = ["axis_label", "factor_between", "unit_in", "unit_of"]

NANOMETRES = {"nm": 1.0, "µm": 1000.0, "Å": 0.1}
SPELLINGS = {
    "nm": ("nm", "nanometer", "nanometers", "nanometre", "nanometres"),
    "µm": ("µm", "μm", "um", "micron", "microns", "micrometer", "micrometers", "micrometre", "micrometres"),
    "Å": ("å", "angstrom", "angstroms"),
    "cm⁻¹": ("cm⁻¹", "cm-1", "cm^-1", "1/cm", "wavenumber", "wavenumbers"),
}
KNOWN = {spelling: unit for unit, spellings in SPELLINGS.items() for spelling in spellings}


def unit_of(text: str | None) -> str | None:
    """Return the unit that a text such as "Micrometers" means; an unknown one as it is, None for none."""
    word = "" if text is None else str(text).strip()
    if word.lower() in ("", "unknown", "<unspecified>", "none", "index", "arbitrary units"):
        return None
    return KNOWN.get(word.lower(), word)


def unit_in(title: str) -> str | None:
    """Return the unit in a column's title such as "wavelength (nm)", "wavelength_um" or "nm"; None if it has none."""
    words = re.split(r"[\s_()\[\],:]+", title.strip().lower())
    return next((KNOWN[word] for word in reversed(words) if word in KNOWN), None)


def factor_between(old: str | None, new: str | None) -> float | None:
    """Return what turns wavelengths of one unit into another: 1 where a unit is not known, None if there is none."""
    if old is None or new is None or old == new:
        return 1.0
    return NANOMETRES[old] / NANOMETRES[new] if old in NANOMETRES and new in NANOMETRES else None


def axis_label(unit: str | None) -> str:
    """Return the label of an axis of wavelengths."""
    if unit is None:
        return "wavelength"
    return f"{'wavenumber' if unit == 'cm⁻¹' else 'wavelength'} ({unit})"
