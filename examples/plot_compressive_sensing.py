"""
Compressive sensing of sounds in an overcomplete cosine transform
=================================================================

A signal of 128 samples is a sum of a few cosines. Its frequencies do not fall on the grid of the ordinary cosine
transform, so we use a grid that is four times as fine. Its neighbouring atoms are nearly the same, which makes ℓ1
and greedy methods fail. From 32 random mixtures of the samples we recover the frequencies.
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsparse as ms

samples, atoms, measurements, d = 128, 512, 32, 6
rng = np.random.default_rng(0)
grid = np.arange(atoms) / 4  # four times as fine as the orthonormal cosine transform
cosines = np.cos(np.pi / samples * (np.arange(samples)[:, None] + 0.5) * grid)
cosines /= np.linalg.norm(cosines, axis=0)
mixtures = rng.standard_normal((measurements, samples)) / np.sqrt(measurements)

# %%
# The dictionary is the product of both. A coherence of 1 would mean two equal atoms.

Phi = mixtures @ cosines
print(f"coherence {ms.theory.coherence(Phi):.4f}")
X, Y = ms.signals.sample(Phi, 60, sparsity=d, rng=1)  # 60 sounds, as rows

# %%
# Three methods on the same measurements. The first two are given d.

answers = {
    "OMP": ms.solve(Phi, Y, method="omp", sparsity=d, precondition=True),
    "ℓ1": ms.solve(Phi, Y, method="l1", sparsity=d, precondition=True),
    "SparseRecoverer": ms.SparseRecoverer(Phi, budget="fast").recover(Y),
}
right = {name: (answer.support == (X != 0)).all(axis=1) for name, answer in answers.items()}
for name, hits in right.items():
    print(f"{name:16} {hits.mean():.2f} of the supports exactly right")
certified = answers["SparseRecoverer"].certified
print(f"certified: {certified.mean():.2f}, of these wrong: {np.sum(certified & ~right['SparseRecoverer'])}")

# %%
# One sound that both other methods miss.

k = int(np.flatnonzero(~right["OMP"] & ~right["ℓ1"] & right["SparseRecoverer"])[0])
figure, (left, middle) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, style in (("ℓ1", "C1--"), ("OMP", "C0:"), ("SparseRecoverer", "k-")):
    left.plot(cosines @ answers[name].coef[k] - cosines @ X[k], style, label=name)
left.set(title="error of the reconstructed sound", xlabel="sample", ylabel="error")
middle.stem(grid, X[k], linefmt="0.6", markerfmt="none", basefmt="0.9", label="truth")
for name, style in (("ℓ1", "C1x"), ("OMP", "C0+"), ("SparseRecoverer", "ko")):
    used = answers[name].support[k]
    middle.plot(grid[used], answers[name].coef[k, used], style, label=name, fillstyle="none")
middle.set(title="its cosines", xlabel="frequency", ylabel="amplitude")
for axes in (left, middle):
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4, frameon=False)
plt.show()
