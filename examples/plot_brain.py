"""
Which places in the brain are active?
=====================================

64 electrodes on a sphere, 500 places on a cortex inside it, orientations free. Three places are active at the same
time, with time courses that resemble each other; the noise level and the number of sources are not given. The head is
made here; with your own recording ``evoked``, ``forward`` and ``noise_cov`` are the objects that you have from
MNE-Python.
"""

import matplotlib.pyplot as plt
import mne
import numpy as np

from maxsparse.fields import brain

mne.set_log_level("ERROR")
forward, noise_cov, info = brain.sphere_head(500)
truth = np.array([100, 140, 366])
evoked = brain.simulate(forward, noise_cov, info, truth, snr_db=4, correlation=0.7, rng=2)

found = brain.sparse_inverse(evoked, forward, noise_cov, return_as="all")
print(found)

# %%
# The same with Gamma-MAP of MNE-Python, which is given the variance of the noise. Of what it returns, places of at
# least a tenth of the largest amplitude are counted.

dipoles = mne.inverse_sparse.gamma_map(evoked, forward, noise_cov, alpha=1.0, return_as_dipoles=True)
sizes = np.array([np.abs(dipole.amplitude).max() for dipole in dipoles])
strong = np.array([dipole.pos[0] for dipole in dipoles])[sizes > 0.1 * sizes.max()]
positions = forward["source_rr"][truth]


def distances(places):
    """Return how far every true place is from the nearest one found, in mm."""
    return 1e3 * np.linalg.norm(places[:, None] - positions, axis=2).min(axis=0)


print(f"gamma_map: {len(strong)} places, {distances(strong).round(1)} mm from the true ones")
print(f"ours:      {len(found)} places, {distances(found.positions).round(1)} mm from the true ones")

# %%
# Crosses are the true places. Circles: places that might be active instead, by their probability. ``found.stc`` and
# ``found.probability`` are source estimates for all of MNE-Python's own pictures.

found.plot(truth=positions)
plt.show()
