"""
Photometric stereo with highlights and a shadow
===============================================

A shiny ball is photographed under twenty known lights. Without highlights and shadows, brightness is the
cosine between light and normal; highlights and shadows are sparse errors, different in every pixel.
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsparse as ms

size = 96
y, x = np.mgrid[1 : -1 : size * 1j, -1 : 1 : size * 1j]  # y up, z towards the camera
mask = x**2 + y**2 < 0.9
normals = np.where(mask[..., None], np.dstack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))]), 0)

lights = ms.stereo.hemisphere_lights(20, lowest=0.3, rng=0)
cosines = np.einsum("hwc,qc->qhw", normals, lights)
halfway = lights + [0, 0, 1]
halfway /= np.linalg.norm(halfway, axis=1, keepdims=True)
highlights = np.maximum(np.einsum("hwc,qc->qhw", normals, halfway), 0) ** 60
images = np.where(mask, 0.6 * np.maximum(cosines, 0) + 0.8 * highlights * (cosines > 0), 0)
images[3, : size // 2] = 0  # a shadow over half of one photograph
scene = ms.stereo.make_scene(images, lights, mask=mask, normals=normals)

# %%
# Least squares, ℓ1 and the default, which selects readings that agree and weights them with a small network.

results = {name: ms.stereo.estimate_normals(scene, name) for name in ("ls", "l1", "auto")}
errors = {name: ms.metrics.angular_error(result.normals[mask], normals[mask]) for name, result in results.items()}
for name, error in errors.items():
    print(f"{name:5} mean error {error.mean():5.2f}°")

# %%
# A photograph, the normals, and the error of each method.

figure, axes = plt.subplots(1, 5, figsize=(14, 3.1), layout="constrained")
axes[0].imshow(images[0], cmap="gray")
axes[0].set_title("one of 20 photographs")
axes[1].imshow(np.where(mask[..., None], (results["auto"].normals + 1) / 2, 1))
axes[1].set_title("normals (auto)")
for axis, (name, error) in zip(axes[2:], errors.items(), strict=True):
    picture = np.full(mask.shape, np.nan)
    picture[mask] = error
    drawn = axis.imshow(picture, vmin=0, vmax=15, cmap="inferno")
    axis.set_title(f"{name}: {error.mean():.2f}° mean error")
figure.colorbar(drawn, ax=axes[-1], label="degrees")
for axis in axes:
    axis.axis("off")
plt.show()
