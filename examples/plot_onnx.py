"""
Recovery with onnxruntime and numpy only
========================================

A model is exported once. To run it, neither maxsparse nor torch is needed: an ONNX runtime computes the scores, and
twenty lines of numpy turn them into coefficients.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import maxsparse as ms

# %%
# Export to one file. On the command line: ``maxsparse export model.safetensors``.

folder = Path(tempfile.mkdtemp())
Phi = ms.dictionaries.decaying(20, 100, rng=0)
exported = ms.export.to_onnx(ms.SparseRecoverer(Phi), folder / "model.onnx")
print(f"{exported.size / 1e3:.0f} kB; scores agree with this package to {exported.error:.0e}")
np.save(folder / "Phi.npy", Phi)

# %%
# Run it with onnxruntime and numpy.


class OnnxRecoverer:
    """Scores from the file; coefficients by one solve on the n best-scored atoms."""

    def __init__(self, folder):
        self.Phi = np.load(folder / "Phi.npy")
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])

    def recover(self, Y):
        """Return coefficients (N, m), and a mask of the signals that fewer than n − 1 atoms explain."""
        scores = self.session.run(["scores"], {"y": Y})[0]
        n, m = self.Phi.shape
        X, found = np.zeros((len(Y), m)), np.zeros(len(Y), dtype=bool)
        for row, order in enumerate(np.argsort(-scores, axis=1)[:, : n - 1]):
            # n − 1 atoms and n equations: if they contain the support, all other coefficients come out as zero.
            x = np.linalg.lstsq(self.Phi[:, order], Y[row], rcond=1e-13)[0]
            kept = order[np.abs(x) > 1e-6 * np.abs(x).max()]
            x = np.linalg.lstsq(self.Phi[:, kept], Y[row], rcond=None)[0]
            residual = np.linalg.norm(Y[row] - self.Phi[:, kept] @ x)
            found[row] = len(kept) < n - 1 and residual < 1e-9 * np.linalg.norm(Y[row])
            X[row, kept] = x
        return X, found


# %%
# Accuracy without the search and the certificates of the whole package.

exported_model, whole = OnnxRecoverer(folder), ms.SparseRecoverer(Phi, budget="fast")
sparsities = range(1, 11)
curves = {"onnxruntime + numpy": [], "SparseRecoverer": []}
for d in sparsities:
    X, Y = ms.signals.sample(Phi, 100, sparsity=d, rng=d)
    curves["onnxruntime + numpy"].append(np.mean(((exported_model.recover(Y)[0] != 0) == (X != 0)).all(axis=1)))
    curves["SparseRecoverer"].append(np.mean((whole.recover(Y).support == (X != 0)).all(axis=1)))
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, values), style in zip(curves.items(), ("C0--", "k-"), strict=True):
    print(f"{name:20} " + " ".join(f"{v:.2f}" for v in values))
    axes.plot(sparsities, values, style, marker="o", label=name)
axes.set(xlabel="nonzeros d", ylabel="supports exactly right", ylim=(-0.03, 1.03))
axes.legend()
plt.show()
