"""
Fast transforms as dictionaries: cosines, Fourier, wavelets
===========================================================

A dictionary of a million atoms does not fit into memory, but its products with a vector are often a fast transform. Φ
may then be a ``scipy.sparse.linalg.LinearOperator``, of which operators of PyLops are a kind.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator

import maxsparse as ms

rng = np.random.default_rng(0)
samples, kept = 16_384, 300


def sampled(forward, back, places, dtype=float):
    """Return the transform ``forward``, read at some places; ``back`` is its adjoint."""

    def rmatvec(r):
        whole = np.zeros(samples, dtype=dtype)
        whole[places] = r.ravel()
        return back(whole)

    matvec = lambda x: forward(x.ravel())[places]  # noqa: E731
    return LinearOperator((len(places), samples), matvec=matvec, rmatvec=rmatvec, dtype=dtype)


# %%
# A sound of 25 cosines, known at 300 of its 16,384 moments. The matrix would have 39 MB; of a longer sound, gigabytes.

places = np.sort(rng.choice(samples, kept, replace=False))
cosines = sampled(lambda x: idct(x, norm="ortho"), lambda y: dct(y, norm="ortho"), places)
x = np.zeros(samples)
x[rng.choice(samples, 25, replace=False)] = rng.choice([-1, 1], 25) * rng.uniform(1, 3, 25)
y = cosines.matvec(x)

greedy = ms.solvers.omp(cosines, y[None], sparsity=25)
print(f"OMP: largest error {np.abs(greedy.coef[0] - x).max():.1e}")

# %%
# The recoverer looks up promising atoms and solves for these. Its certificate is checked on all 16,384.

recovered = ms.SparseRecoverer(cosines, noise=0).recover(y[None])
print(f"certified: {recovered.certified[0]} ({recovered.argument[0]}), {recovered.support[0].sum()} cosines")

# %%
# Frequencies of a complex signal, by the fast Fourier transform.

fourier = sampled(lambda x: np.fft.ifft(x, norm="ortho"), lambda y: np.fft.fft(y, norm="ortho"), places, dtype=complex)
z = np.zeros(samples, dtype=complex)
z[rng.choice(samples, 20, replace=False)] = rng.standard_normal(20) + 1j * rng.standard_normal(20)
found = ms.solvers.omp(fourier, fourier.matvec(z)[None], sparsity=20)
print(f"Fourier: {np.sum(found.support[0] == (z != 0))} of {samples} places right")

# %%
# Wavelets: a signal of a few steps, known at a fifth of its moments, by ℓ1 (this part needs PyWavelets).

try:
    import pywt
except ImportError:
    pywt = None

length = 1024
steps = np.repeat(rng.standard_normal(8), length // 8)
estimate = None
if pywt is not None:
    wavelet = {"wavelet": "haar", "mode": "periodization"}
    shapes = [len(part) for part in pywt.wavedec(steps, level=7, **wavelet)]
    some = np.sort(rng.choice(length, length // 5, replace=False))

    def from_coefficients(c):
        return pywt.waverec(np.split(c.ravel(), np.cumsum(shapes)[:-1]), **wavelet)

    def to_coefficients(v):
        return np.concatenate(pywt.wavedec(v, level=7, **wavelet))

    def spread(r):
        whole = np.zeros(length)
        whole[some] = r.ravel()
        return to_coefficients(whole)

    wavelets = LinearOperator((len(some), length), matvec=lambda c: from_coefficients(c)[some], rmatvec=spread)
    answer = ms.solvers.fista(wavelets, steps[some][None], lam=1e-3)
    estimate = from_coefficients(answer.coef[0])
    print(f"wavelets: mean error {np.abs(estimate - steps).mean():.3f}")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.5), layout="constrained")
left.stem(np.flatnonzero(x), x[x != 0], linefmt="0.7", markerfmt="none", basefmt="0.9", label="truth")
left.plot(
    np.flatnonzero(recovered.support[0]), recovered.coef[0][recovered.support[0]], "ko", fillstyle="none", label="found"
)
left.set(title="cosines of the sound", xlabel="frequency", ylabel="coefficient")
right.plot(steps, "0.7", label="truth")
if estimate is not None:
    right.plot(estimate, "k", lw=0.8, label="from a fifth of it")
right.set(title="steps, by wavelets", xlabel="moment")
for axes in (left, right):
    axes.legend(frameon=False)
plt.show()
