"""
How many sources are there, and where?
======================================

Twelve antennas in a row, half a wavelength apart, record twenty snapshots. Three transmitters are on the air, two of
them 5° apart: closer than the 9.5° that a beamformer resolves. ``estimate_directions`` is given neither the number of
transmitters nor the noise level.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxsparse.fields import arrays

truth = np.array([-20.0, 10.0, 15.0])
array = arrays.linear(12)
Y = arrays.simulate(array, truth, snapshots=20, snr_db=15, rng=1)
found = arrays.estimate_directions(Y, array)
print(found)

# %%
# The classical methods are given the number. The Cramér–Rao bound says how well directions can be known at all.

print("MUSIC      ", np.sort(arrays.music(Y, array, 3)).round(2))
print("ESPRIT     ", np.sort(arrays.esprit(Y, array, 3)).round(2))
print("ours       ", np.sort(found.azimuth).round(2))
bound = arrays.cramer_rao(array, truth, snapshots=20, noise=10 ** (-15 / 20))
print("errors     ", found.azimuth_error[np.argsort(found.azimuth)].round(3))
print("best errors", bound.round(3))

# %%
# Two angles: a circle of sensors, and a sky of sources.

sky = np.array([[30.0, 20.0], [45.0, 38.0], [-120.0, 60.0]])
circle = arrays.circular(12, radius=1.0)
above = arrays.estimate_directions(
    arrays.simulate(circle, *sky.T, snapshots=20, snr_db=15, rng=0), circle, elevation=(0, 90)
)
print(above)

figure, (left, right) = plt.subplots(2, 1, figsize=(9, 7), layout="constrained")
found.plot(truth=truth, axes=left)
above.plot(truth=sky, axes=right)
plt.show()
