"""From MNE-Python's objects to a whitened and weighted gain matrix, by MNE-Python's public functions."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsparse._core.validation import check_number
from maxsparse.fields.brain.fingerprint import fingerprint
from maxsparse.fields.brain.gain import Gain

__all__ = ["Head", "Prepared", "prepared"]

LEAST_CHANNELS = 8  # one source has six unknowns, position and moment, and a reference takes one channel
KEPT = 2  # heads of earlier calls: whitening and weighting take longer than a search


class Head(NamedTuple):
    """What follows from forward solution, noise covariance and channels, without the measurements.

    Attributes
    ----------
    whitener : ndarray of shape (n, channels)
    gain : Gain
        Whitened and weighted gain matrix (n, n_orient × B).
    weighting : ndarray of shape (n_orient × B,)
        Sources are coefficients of `gain` times this.
    forward : mne.Forward
        In the orientation and with the channels that were used.
    """

    whitener: NDArray[np.float64]
    gain: Gain
    weighting: NDArray[np.float64]
    forward: Any


class Prepared(NamedTuple):
    """A linear problem M = G X + noise: whitened measurements (n, T), and what their head is."""

    M: NDArray[np.float64]
    head: Head


_heads: dict[bytes, Head] = {}  # those of the last calls, by all that they follow from


def prepared(
    mne: Any, evoked: Any, forward: Any, noise_cov: Any, *, loose: Any, depth: Any, pca: bool, rank: Any
) -> Prepared:
    """Do what :func:`mne.inverse_sparse.gamma_map` does before it solves; options are its options."""
    _check(mne, evoked, forward, noise_cov)
    given_fixed = _is_fixed(mne, forward)
    loose, fixed = _looseness(forward, loose, given_fixed)
    bads = {*evoked.info["bads"], *noise_cov["bads"]}
    known = set(forward["sol"]["row_names"]) & set(noise_cov["names"]) - bads
    names = [name for name in evoked.ch_names if name in known]
    _check_channels(mne, evoked, forward, noise_cov, names, bads)
    loosely = not fixed and not forward["surf_ori"] and any(value < 1.0 for value in loose.values())
    turned = loosely or (fixed and not given_fixed)
    options = {"loose": loose, "depth": depth, "pca": pca, "rank": rank}
    key = fingerprint(evoked.info, forward, noise_cov, turned=turned, options=repr((sorted(names), options)))
    head = None if key is None else _heads.get(key)
    if head is None:
        head = _head(mne, evoked, forward, noise_cov, names, fixed=fixed, turned=turned, **options)
        if key is not None:
            for oldest in list(_heads)[: max(0, len(_heads) - KEPT + 1)]:
                _heads.pop(oldest, None)
            _heads[key] = head
    return Prepared(head.whitener @ evoked.data[[evoked.ch_names.index(name) for name in names]], head)


def _head(
    mne: Any,
    evoked: Any,
    forward: Any,
    noise_cov: Any,
    names: list[str],
    *,
    fixed: bool,
    turned: bool,
    loose: dict[str, float],
    depth: Any,
    pca: bool,
    rank: Any,
) -> Head:
    forward = mne.pick_channels_forward(forward, names, ordered=True)
    if turned:
        forward = mne.convert_forward_solution(forward, surf_ori=True, force_fixed=fixed)
    info = mne.pick_info(evoked.info, [evoked.ch_names.index(name) for name in names])
    power = _depth_prior(mne, forward, info, noise_cov, depth, rank)
    if not fixed:
        power = power * mne.forward.compute_orient_prior(forward, loose=loose)
    whitener = mne.cov.compute_whitener(noise_cov, evoked.info, picks=names, pca=pca, rank=rank)[0]
    weighting = np.sqrt(power)
    G = (whitener @ forward["sol"]["data"]) * weighting
    scale = np.sqrt(len(G) / np.sum(G**2))
    return Head(whitener, Gain(G * scale, 1 if fixed else 3), weighting * scale, forward)


def _is_fixed(mne: Any, forward: Any) -> bool:
    return bool(forward["source_ori"] == mne.io.constants.FIFF.FIFFV_MNE_FIXED_ORI)


def _looseness(forward: Any, loose: Any, given_fixed: bool) -> tuple[dict[str, float], bool]:
    """Return the looseness of every kind of source space, and whether all orientations are fixed."""
    kinds = {{"surf": "surface", "vol": "volume"}.get(space["type"], "discrete") for space in forward["src"]}
    if isinstance(loose, str):
        if loose != "auto":
            raise ValueError(f"loose must be 'auto', a number from 0 to 1, or one per kind of space, got {loose!r}")
        usual = 0.0 if given_fixed else (0.2 if forward["src"].kind == "surface" else 1.0)
        values = dict.fromkeys(kinds, usual)
    else:
        values = dict(loose) if isinstance(loose, dict) else dict.fromkeys(kinds, float(loose))
    if set(values) != kinds:
        raise ValueError(f"loose must have one number for each of {sorted(kinds)}, got {sorted(values)}")
    for kind, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"loose must be from 0 (fixed) to 1 (free), got {value:g}")
        if kind == "volume" and value < 1.0:
            raise ValueError("orientations in a volume are free: loose must be 1 there")
    fixed = all(value == 0.0 for value in values.values())
    if given_fixed and not fixed:
        raise ValueError(
            "the forward solution has fixed orientations: use loose=0, or one with free orientations "
            "(force_fixed=False)"
        )
    return values, fixed


def _depth_prior(mne: Any, forward: Any, info: Any, noise_cov: Any, depth: Any, rank: Any) -> NDArray[np.float64]:
    """Return the variance that depth weighting gives every column, with the options of MNE-Python's sparse solvers."""
    options = {"exp": 0.8, "limit": None, "limit_depth_chs": "whiten", "combine_xyz": "fro"}
    options |= depth if isinstance(depth, dict) else {"exp": depth}
    options.pop("allow_fixed_depth", None)
    if options["exp"]:
        check_number(options["exp"], "depth", low=0.0)
    if not options["exp"]:
        return np.ones(forward["sol"]["data"].shape[1])
    return np.asarray(mne.forward.compute_depth_prior(forward, info, noise_cov=noise_cov, rank=rank, **options))


def _check_channels(mne: Any, evoked: Any, forward: Any, noise_cov: Any, names: list[str], bads: set[str]) -> None:
    """Refuse or warn where evoked, forward solution and covariance have few channels in common."""
    if not names:
        raise ValueError(
            "evoked, forward and noise_cov have no good channel in common; were they made for the same recording?"
        )
    picks = mne.pick_types(evoked.info, meg=True, eeg=True, ref_meg=False, exclude=[])
    kinds = dict(zip(evoked.ch_names, evoked.get_channel_types(), strict=True))
    used = {kinds[name] for name in names}  # a forward solution of EEG alone is no mistake
    good = {evoked.ch_names[pick] for pick in picks if kinds[evoked.ch_names[pick]] in used} - bads
    counts = [
        f"{len(good & set(own))} {what}"
        for own, what in ((forward["sol"]["row_names"], "are in forward"), (noise_cov["names"], "in noise_cov"))
    ]
    said = f"of the {len(good)} good channels of evoked ({', '.join(sorted(used))}), {' and '.join(counts)}"
    if 2 * len(names) < len(good):
        raise ValueError(f"{said}; were they made for the same recording?")
    if len(names) < LEAST_CHANNELS:
        raise ValueError(
            f"too few channels: {len(names)} good ones; places cannot be told apart with fewer than {LEAST_CHANNELS}"
        )
    if len(names) < len(good):
        warnings.warn(f"{said}: the others are left out", UserWarning, stacklevel=4)


def _check(mne: Any, evoked: Any, forward: Any, noise_cov: Any) -> None:
    """Refuse what cannot be localised."""
    kinds = {"evoked": mne.Evoked, "forward": mne.Forward, "noise_cov": mne.Covariance}
    for (name, kind), value in zip(kinds.items(), (evoked, forward, noise_cov), strict=True):
        if not isinstance(value, kind):
            more = "; average the epochs first" if name == "evoked" and hasattr(value, "average") else ""
            raise ValueError(f"{name} must be an mne.{kind.__name__}, got {type(value).__name__}{more}")
    good = mne.pick_types(evoked.info, meg=True, eeg=True, ref_meg=False, exclude="bads")
    if not np.isfinite(evoked.data[good]).all():
        raise ValueError("evoked holds values that are not finite; mark these channels as bad or crop the samples")
    average = mne.io.constants.FIFF.FIFFV_PROJ_ITEM_EEG_AVREF
    eeg = mne.pick_types(evoked.info, meg=False, eeg=True, exclude="bads")
    if len(eeg) and not any(projector["kind"] == average for projector in evoked.info["projs"]):
        raise ValueError("EEG needs an average reference: evoked.set_eeg_reference(projection=True)")
