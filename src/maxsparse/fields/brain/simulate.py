"""A head without downloads: a sphere with electrodes and places on a sphere inside, and averages of known sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxsparse._core.extras import needs
from maxsparse._core.validation import RandomState, check_integer, check_number, check_rng

__all__ = ["simulate", "sphere_head"]

CORTEX, GAP = 0.075, 0.003  # radius of the layer of places, and distance of its halves from the middle, in metres
LOWEST = -0.3  # of the radius
NOISE = 1e-6  # volts at an electrode


def sphere_head(places: int = 1000, *, montage: str = "biosemi64", fixed: bool = False) -> tuple[Any, Any, Any]:
    """Make a head: a sphere model with electrodes, and places on a sphere inside, with normals that point outwards.

    Parameters
    ----------
    places : int, default=1000
        Number of places, about half of them in each hemisphere.
    montage : str, default="biosemi64"
        Electrodes, see :func:`mne.channels.make_standard_montage`.
    fixed : bool, default=False
        Whether orientations are those of the normals.

    Returns
    -------
    forward : mne.Forward
    noise_cov : mne.Covariance
        White noise of 1 µV.
    info : mne.Info
        Of recordings at 200 Hz, with an average reference.
    """
    with needs("a sphere model"):
        import mne
    count = check_integer(places, "places", low=20)
    electrodes = mne.channels.make_standard_montage(montage)
    info = mne.create_info(electrodes.ch_names, 200.0, "eeg", verbose=False)
    info.set_montage(electrodes)
    with mne.utils.use_log_level("ERROR"):
        sphere = mne.make_sphere_model("auto", "auto", info)
        spaces = mne.SourceSpaces(_hemispheres(mne, count, np.array(sphere["r0"])))
        forward = mne.make_forward_solution(info, None, spaces, sphere, meg=False, mindist=0.0)
        forward = mne.convert_forward_solution(forward, surf_ori=True, force_fixed=fixed)
        quiet = mne.EvokedArray(np.zeros((len(info["ch_names"]), 1)), info)
        quiet.set_eeg_reference(projection=True)
        noise_cov = mne.make_ad_hoc_cov(quiet.info, {"eeg": NOISE})
    return forward, noise_cov, quiet.info


def _hemispheres(mne: Any, count: int, centre: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return source spaces of points on a sphere, equally dense everywhere, left and right."""
    i = np.arange(count) + 0.5
    height, turn = 1.0 - (1.0 - LOWEST) * i / count, math.pi * (1.0 + math.sqrt(5.0)) * i
    flat = np.sqrt(1.0 - height**2)
    normals = np.stack([flat * np.cos(turn), flat * np.sin(turn), height], axis=1)
    return [_space(mne, normals[side * normals[:, 0] > 0], side, centre) for side in (-1, 1)]


def _space(mne: Any, normals: NDArray[np.float64], side: int, centre: NDArray[np.float64]) -> dict[str, Any]:
    from scipy.spatial import ConvexHull

    triangles = ConvexHull(normals).simplices
    a, b, c = (normals[triangles[:, corner]] for corner in range(3))
    inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0
    triangles[inwards] = triangles[inwards, ::-1]
    count = len(normals)
    return {
        "type": "surf",
        "id": 101 if side < 0 else 102,
        "coord_frame": mne.io.constants.FIFF.FIFFV_COORD_HEAD,
        "rr": CORTEX * normals + centre + [side * GAP, 0.0, 0.0],
        "nn": normals,
        "np": count,
        "tris": triangles.astype(np.int32),
        "ntri": len(triangles),
        "vertno": np.arange(count),
        "inuse": np.ones(count, dtype=int),
        "nuse": count,
        "nuse_tri": 0,
        "use_tris": None,
        **dict.fromkeys(("nearest", "nearest_dist", "pinfo", "patch_inds", "dist", "dist_limit")),
        "subject_his_id": "sphere",
    }


def simulate(
    forward: Any,
    noise_cov: Any,
    info: Any,
    places: ArrayLike,
    *,
    snr_db: float = 15.0,
    samples: int = 100,
    correlation: float = 0.0,
    rng: RandomState = None,
) -> Any:
    """Make an average of trials with known sources: short oscillations, in noise as `noise_cov` has it.

    Parameters
    ----------
    forward, noise_cov, info
        Of :func:`sphere_head`, or your own. White noise of the variances in `noise_cov` is added.
    places : array-like of int
        Active places. Where orientations are free, they are drawn.
    snr_db : float, default=15.0
        Power of all sources together over that of the noise, over sensors and samples.
    samples : int, default=100
    correlation : float, default=0.0
        Of every time course with a common one: 1 makes all the same.
    rng : int, Generator or None, default=None

    Returns
    -------
    evoked : mne.EvokedArray
    """
    with needs("a simulation"):
        import mne
    generator, T = check_rng(rng), check_integer(samples, "samples", low=2)
    rho = check_number(correlation, "correlation", low=0.0, high=1.0)
    active = np.atleast_1d(np.asarray(places, dtype=np.intp))
    t = np.linspace(0.0, 1.0, T)[:, None]
    low, high = np.array([[0.25], [0.06], [2.0], [0.0]]), np.array([[0.75], [0.15], [6.0], [2 * math.pi]])
    centre, width, cycles, phase = generator.uniform(low, high, (4, len(active) + 1))
    courses = np.exp(-(((t - centre) / width) ** 2)) * np.cos(2 * np.pi * cycles * (t - centre) + phase)
    courses /= np.linalg.norm(courses, axis=0)
    courses = rho * courses[:, -1:] + math.sqrt(1.0 - rho**2) * courses[:, :-1]
    gain = np.asarray(forward["sol"]["data"])
    o = gain.shape[1] // len(forward["source_rr"])
    if not np.array_equal(forward["sol"]["row_names"], info["ch_names"]) or noise_cov["names"] != info["ch_names"]:
        raise ValueError("info, forward and noise_cov must have the same channels in the same order")
    if "eeg" in info.get_channel_types(unique=True):
        gain = gain - gain.mean(axis=0)  # the average reference
    clean = np.zeros((len(gain), T))
    for place, course in zip(active, courses.T, strict=True):
        direction = generator.standard_normal(o) if o > 1 else np.ones(1)
        field = gain[:, place * o : place * o + o] @ direction
        clean += generator.uniform(0.7, 1.4) * np.outer(field / np.linalg.norm(field), course)
    deviation = np.sqrt(noise_cov["data"] if noise_cov["diag"] else np.diag(noise_cov["data"]))[:, None]
    deviation = np.broadcast_to(deviation, clean.shape)
    if active.size:
        clean *= math.sqrt(np.mean(deviation**2) / np.mean(clean**2)) * 10 ** (snr_db / 20)
    noisy = clean + deviation * generator.standard_normal(clean.shape)
    return mne.EvokedArray(noisy, info, tmin=0.0, nave=1, verbose=False)
