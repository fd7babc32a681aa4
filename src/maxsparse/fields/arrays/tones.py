"""Tones in the spectra of short pieces: a tone leaks into several bins, and in all of them has its own frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["tones"]

STEADY = 0.8  # coherence of neighbouring pieces from which a bin holds a tone; noise has 1/6 with Hann's window
BY_CHANCE = 1e-3  # probability that noise in few pieces is as coherent
LEAKAGE = 0.03  # of the power of a bin, from which tones elsewhere spoil it


def tones(
    spectra: NDArray[Any], power: NDArray[np.float64], hop: float, window: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the frequency of what every bin hears, and whether the bin can be used.

    Parameters
    ----------
    spectra : ndarray of shape (L, n, B), complex
        Fourier transforms of pieces with Hann's window.
    power : ndarray of shape (B,)
        Their mean power.
    hop, window : float
        Distance between pieces, and their length, in seconds.

    Returns
    -------
    frequency : ndarray of shape (B,)
        In hertz: that of the tone for the strongest bin of a tone, else the bin's own.
    usable : ndarray of shape (B,), bool
        False for bins into which tones leak.
    """
    L, _, B = spectra.shape
    own = np.arange(B) / window
    usable = np.ones(B, dtype=bool)
    if L < 3:
        return own, usable
    turned = np.einsum("lnb,lnb->b", spectra[:-1].conj(), spectra[1:])
    coherence = np.abs(turned) / np.maximum((L - 1) * spectra.shape[1] * power, 1e-300)
    least = max(STEADY, float(np.sqrt(1 - BY_CHANCE ** (1 / (L - 2)))))
    around = np.pad(power, 1)
    peaks = np.flatnonzero((coherence >= least) & (power > around[:-2]) & (power >= around[2:]))
    # A tone's phase advances by 2π f · hop from piece to piece; the bin's own frequency resolves the multiples of 2π.
    advance = np.angle(turned[peaks] * np.exp(-2j * np.pi * own[peaks] * hop))
    exact = own[peaks] + advance / (2 * np.pi * hop)
    frequency = own.copy()
    for peak, tone in sorted(zip(peaks.tolist(), exact.tolist(), strict=True), key=lambda pair: -power[pair[0]]):
        if not usable[peak]:
            continue  # itself the leakage of a stronger tone
        leak = power[peak] * _response((own - tone) * window) / _response((own[peak : peak + 1] - tone) * window)
        spoilt = leak > LEAKAGE * power
        spoilt[peak] = False
        usable &= ~spoilt
        frequency[peak] = tone
    return frequency, usable


def _response(bins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the most power that Hann's window lets through from a tone so many bins away: [sinc x / (1 − x²)]².

    Beyond its main lobe without the zeros of the sine: tones whose pitch is not quite steady fill them.
    """
    x = np.maximum(np.abs(bins), 1e-6)
    x = np.where(np.abs(x - 1) < 1e-6, 1 - 1e-6, x)
    sine = np.where(x < 1.5, np.sin(np.pi * x), 1.0)
    return np.asarray((sine / (np.pi * x * (1 - x**2))) ** 2)
