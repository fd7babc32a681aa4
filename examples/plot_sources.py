"""
Directions of close sources on a fine grid
==========================================

Twelve antennas in a row, half a wavelength apart, receive three transmitters, two of them 5° apart: closer than the
9.5° resolution of a beamformer with this array. Thirty complex snapshots share one support, so they are one signal of
shape (30, 12): no real and imaginary parts to stack, and one answer for all.
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsparse as ms

antennas, snapshots, sigma = 12, 30, 0.02
degrees = np.arange(-60.0, 60.5, 1.0)
truth = np.array([-20.0, 10.0, 15.0])
steering = np.exp(1j * np.pi * np.arange(antennas)[:, None] * np.sin(np.deg2rad(degrees))) / np.sqrt(antennas)

rng = np.random.default_rng(3)
amplitudes = np.zeros((snapshots, degrees.size), dtype=complex)
phases = rng.uniform(0, 2 * np.pi, (snapshots, truth.size))
amplitudes[:, np.isin(degrees, truth)] = rng.uniform(0.7, 1.3, phases.shape) * np.exp(1j * phases)
noise = (
    sigma / np.sqrt(2) * (rng.standard_normal((snapshots, antennas)) + 1j * rng.standard_normal((snapshots, antennas)))
)
Y = amplitudes @ steering.T + noise

# %%
# Signals are (N, snapshots, antennas); scores are the norms of every direction's amplitudes over all snapshots.

print(f"coherence {ms.theory.coherence(steering):.4f}")
spectra = {
    "beamformer": np.mean(np.abs(Y @ steering.conj()) ** 2, axis=0),
    "OMP, number given": ms.solve(steering, Y[None], method="omp", sparsity=3).scores[0] ** 2 / snapshots,
    "SBL": ms.solve(steering, Y[None], method="sbl", noise=sigma).scores[0] ** 2 / snapshots,
}

# %%
# Where are the three strongest directions?

figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
for direction in truth:
    axes.axvline(direction, color="0.8", linewidth=5)
for (name, spectrum), style in zip(spectra.items(), ("C0:", "C1--", "k-"), strict=True):
    peaks = 1 + np.flatnonzero((spectrum[1:-1] > spectrum[:-2]) & (spectrum[1:-1] >= spectrum[2:]))
    strongest = np.sort(degrees[peaks[np.argsort(-spectrum[peaks])[:3]]])
    print(f"{name:22} {', '.join(f'{x:.0f}°' for x in strongest)}")
    axes.plot(degrees, 10 * np.log10(spectrum / spectrum.max() + 1e-5), style, label=name)
axes.set(
    xlabel="direction in degrees (grey: truth)",
    ylabel="power in dB",
    ylim=(-42, 2),
    title="three sources, two 5° apart",
)
axes.legend(loc="upper right", fontsize=9)
plt.show()
