r"""
Regression with gross outliers
==============================

Fifty experiments share one design A (40 times, 6 unknowns), and a quarter of all readings are gross
outliers. Let the rows of Φ be orthonormal with :math:`\Phi A = 0`. Then :math:`\Phi y = \Phi(A w + e) = \Phi e`: the
unknowns are eliminated, and the outliers e are the sparsest solution.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor

import maxsparse as ms

rng = np.random.default_rng(0)
times = np.linspace(-1, 1, 40)
A = np.polynomial.chebyshev.chebvander(times, 5)
W = rng.standard_normal((50, 6))
outliers = (rng.random((50, 40)) < 0.25) * rng.uniform(2, 6, (50, 40))  # all positive: averaging does not help
Y = W @ A.T + outliers

# %%
# The last left singular vectors of A are orthogonal to all of its columns. Photometric stereo is the same problem with
# lights for A; there, ``ms.dictionaries.lighting`` makes Φ.

Phi = np.linalg.svd(A)[0][:, A.shape[1] :].T
result = ms.SparseRecoverer(Phi).recover(Y @ Phi.T)
print(f"certified to be the sparsest explanation: {result.certified.mean():.2f}")

# %%
# Subtract the outliers found, and fit the rest.

estimates = {
    "least squares": np.linalg.lstsq(A, Y.T, rcond=None)[0].T,
    "Huber": np.array([HuberRegressor(fit_intercept=False, alpha=0, max_iter=1000).fit(A, y).coef_ for y in Y]),
    "SparseRecoverer": np.linalg.lstsq(A, (Y - result.coef).T, rcond=None)[0].T,
}
errors = {name: np.linalg.norm(estimate - W, axis=1) for name, estimate in estimates.items()}
for name, error in errors.items():
    print(f"{name:16} median error {np.median(error):.1e}, exact (below 1e-6): {np.mean(error < 1e-6):.2f}")

# %%
# The experiment with the largest error of Huber's method, and the errors of all experiments.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
k = int(np.argmax(np.where(result.certified, errors["Huber"], 0)))
left.plot(times, Y[k], ".", color="0.5", label="readings")
wrong = result.support[k]
left.plot(times[wrong], Y[k, wrong], "o", color="C3", fillstyle="none", label="found outliers")
fine = np.linspace(-1, 1, 200)
for (name, estimate), style in zip(estimates.items(), ("C0:", "C1--", "k-"), strict=True):
    left.plot(fine, np.polynomial.chebyshev.chebval(fine, estimate[k]), style, label=name)
left.set(title="experiment with the largest Huber error", xlabel="time", ylabel="reading")
for (name, error), style in zip(errors.items(), ("C0:", "C1--", "k-"), strict=True):
    right.plot(np.sort(error), np.linspace(0, 1, len(error)), style, label=name)
right.set(xscale="log", xlabel="error of the 6 unknowns", ylabel="share of experiments", title="all experiments")
for axes in (left, right):
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, frameon=False)
plt.show()
