"""Whether a head is the one of an earlier call: a hash of all that whitening and weighting read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["fingerprint"]


def fingerprint(info: Any, forward: Any, noise_cov: Any, *, turned: bool, options: str) -> bytes | None:
    """Return a hash of channels, forward solution, noise covariance and options.

    None where more is read than is known here: processing of MEG that changes the rank, patches of a surface.

    Parameters
    ----------
    info : mne.Info
    forward : mne.Forward
    noise_cov : mne.Covariance
    turned : bool
        Whether orientations change, which reads what the forward solution was made from.
    options : str
    """
    patches = turned and any(space.get("patch_inds") is not None for space in forward["src"])
    if info.get("proc_history") or info.get("comps") or patches or forward.get("patch_areas") is not None:
        return None
    whole = hashlib.sha256(options.encode())
    for part in (*_of_channels(info), *_of_covariance(noise_cov), *_of_forward(forward, turned)):
        if isinstance(part, np.ndarray):
            whole.update(repr((part.shape, part.dtype.str)).encode())
            whole.update(np.ascontiguousarray(part).data)
        else:
            whole.update(repr(part).encode())
    return whole.digest()


def _of_channels(info: Any) -> Iterator[Any]:
    for channel in info["chs"]:
        yield tuple(str(channel[key]) for key in ("ch_name", "kind", "unit", "unit_mul", "coil_type"))
    yield list(info["bads"]), info["custom_ref_applied"]
    yield from _of_projectors(info["projs"])


def _of_projectors(projectors: Any) -> Iterator[Any]:
    for projector in projectors:
        yield projector["desc"], projector["active"], projector["kind"], list(projector["data"]["col_names"])
        yield np.asarray(projector["data"]["data"])


def _of_covariance(noise_cov: Any) -> Iterator[Any]:
    yield list(noise_cov["names"]), list(noise_cov["bads"]), noise_cov.get("diag"), noise_cov.get("nfree")
    yield np.asarray(noise_cov["data"])
    yield from _of_projectors(noise_cov["projs"])


def _of_forward(forward: Any, turned: bool) -> Iterator[Any]:
    yield list(forward["sol"]["row_names"]), forward["surf_ori"], forward["source_ori"], forward["coord_frame"]
    yield from (np.asarray(forward[key]) for key in ("source_rr", "source_nn"))
    yield np.asarray(forward["sol"]["data"])
    for space in forward["src"]:
        yield space["type"], space["nuse"], space.get("subject_his_id")
        yield np.asarray(space["vertno"])
    if turned:
        yield np.asarray(forward["_orig_sol"])
        yield from (np.asarray(space["nn"]) for space in forward["src"])
