"""
Selecting features that are strongly correlated
===============================================

Sixty samples of 100 features, in groups of ten that share most of their variation: genes of one pathway, bands of
one spectrum. A target depends on five of the features. How strongly may the features of a group be correlated
before a method picks their neighbours instead?
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsparse as ms

n, groups, size, d, sigma = 60, 10, 10, 5, 0.01
correlations = [0.0, 0.5, 0.8, 0.9, 0.95, 0.98]
shares = {"lasso": [], "OMP": [], "SBL": [], "SparseRecoverer": []}
for seed, correlation in enumerate(correlations):
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.standard_normal((n, groups)), size, axis=1)
    features = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.standard_normal((n, groups * size))
    Phi = features / np.linalg.norm(features, axis=0)
    X, Y = ms.signals.sample(Phi, 100, sparsity=d, noise=sigma, rng=seed)  # 100 targets, as rows
    scores = {
        "lasso": ms.solve(Phi, Y, method="fista", sparsity=d).scores,
        "OMP": ms.solve(Phi, Y, method="omp", sparsity=d).scores,
        "SBL": ms.solve(Phi, Y, method="sbl", precondition=True, noise=sigma).scores,
        "SparseRecoverer": ms.SparseRecoverer(Phi, noise=sigma).recover(Y).scores,
    }
    for name in shares:
        shares[name].append(ms.metrics.strict_accuracy(X, scores[name]))

# %%
# Share of targets for which exactly the right five features come first.

print("correlation      " + "  ".join(f"{c:4.2f}" for c in correlations))
figure, axes = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for (name, values), style in zip(shares.items(), ("C0:", "C1--", "C2-.", "k-"), strict=True):
    print(f"{name:16} " + "  ".join(f"{v:4.2f}" for v in values))
    axes.plot(range(len(correlations)), values, style, marker="o", label=name)
axes.set_xticks(range(len(correlations)), [str(c) for c in correlations])
axes.set(xlabel="correlation within a group", ylabel="all five features right", ylim=(-0.03, 1.03))
axes.legend()
plt.show()
