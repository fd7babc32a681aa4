"""
Which minerals are in this spectrum?
====================================

A library of forty pure spectra, three of them almost the same mineral, and a measured mixture of three. Non-negative
least squares uses more than twice as many; ``unmix`` returns three, with errors, and says which of them cannot be told
from others.
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsparse as ms
from maxsparse.fields import spectra

rng = np.random.default_rng(5)
bands = np.linspace(400.0, 2500.0, 120)
centers, widths = rng.uniform(400, 2500, (40, 6, 1)), rng.uniform(60, 400, (40, 6, 1))
depths = rng.uniform(0.05, 0.35, (40, 6, 1))
pure = 0.9 - (depths * np.exp(-(((bands - centers) / widths) ** 2))).sum(axis=1)
pure[1] = pure[0] + 0.0005 * np.sin(bands / 90)  # two more calcites
pure[2] = pure[0] + 0.0005 * np.cos(bands / 70)
names = ["calcite, coarse", "calcite, fine", "calcite, vein", *(f"mineral {j}" for j in range(4, 41))]
library = spectra.Spectra(pure, bands, names)

truth = np.zeros(40)
truth[[0, 17, 30]] = 0.5, 0.3, 0.2
measured = truth @ pure + 0.001 * rng.standard_normal(120)
found = spectra.unmix(library, spectra.Spectra(measured, bands, ["field spectrum"]))
for material in found.materials():
    others = ", ".join(f"{name} ({p:.2f})" for name, p in material.alternatives)
    print(f"{material.abundance:.3f} ± {material.error:.3f}  {material.name}; may be: {others}")
print(found.verdict())

# %%
# Non-negative least squares uses more materials.

nnls = ms.solvers.nnls(pure.T, measured[None]).coef[0]
print(f"NNLS: {np.count_nonzero(nnls > 0.001)} materials above 0.1 %")

# %%
# The parts of the spectrum, and a spectrum with something that is not in the library.

strange = measured - 0.15 * np.exp(-(((bands - 1500) / 30) ** 2))
other = spectra.unmix(library, spectra.Spectra(strange, bands, ["with an unknown band at 1500 nm"]))
print(other.verdict())
figure, axes = plt.subplots(4, 1, figsize=(10, 8), sharex=True, height_ratios=(4, 1, 4, 1), layout="constrained")
found.plot(axes=axes[:2])
other.plot(axes=axes[2:])
plt.show()
