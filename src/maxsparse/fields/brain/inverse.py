"""``sparse_inverse``: from an average of M/EEG trials to the few places that explain it, as MNE-Python's objects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxsparse._core.extras import needs
from maxsparse._core.threads import threads
from maxsparse._core.validation import check_flag, check_number
from maxsparse.fields.brain.answer import answer
from maxsparse.fields.brain.locate import located
from maxsparse.fields.brain.prepare import prepared

__all__ = ["sparse_inverse"]

FORMS = ("stc", "dipoles", "all")
LEAST_NOISE, MOST_NOISE = 3e-3, 30.0  # of whitened averages: 1 over the root of the number of trials, up to 100,000


def sparse_inverse(
    evoked: Any,
    forward: Any,
    noise_cov: Any,
    *,
    loose: float | str | dict[str, float] = "auto",
    depth: float | dict[str, Any] | None = 0.8,
    pca: bool = True,
    rank: Any = None,
    pick_ori: str | None = None,
    noise: float | str = "auto",
    between: bool = True,
    budget: int | str = "normal",
    return_as: str = "stc",
) -> Any:
    """Find the few places whose activity explains an average of trials; their number follows from the evidence.

    Parameters
    ----------
    evoked : mne.Evoked
        Cropped to the time window of interest: all its samples share the active places.
    forward : mne.Forward
    noise_cov : mne.Covariance
        Its shape whitens; its level does not matter unless `noise` is given.
    loose, depth, pca, rank, pick_ori
        As in :func:`mne.inverse_sparse.gamma_map`: looseness of orientations, depth weighting, whitening, and
        ``"vector"`` for three components per place. ``loose="auto"`` is 0 where the forward solution is fixed.
    noise : "auto" or float, default="auto"
        Standard deviation of the whitened noise; ``"auto"`` learns it, and its colour in time.
    between : bool, default=True
        Sources may lie between the places: what two places next to each other explain better than one is then noise, if
        that is more probable, and with free orientations ``positions`` and dipoles are where the sources are, not only
        at the nearest places. False: every source is at a place.
    budget : int or str, default="normal"
        Search effort, see :class:`maxsparse.SparseRecoverer`.
    return_as : "stc", "dipoles" or "all", default="stc"
        What to return.

    Returns
    -------
    found : mne.SourceEstimate, list of mne.Dipole, or BrainSources
        A source estimate with the active places, of the kind of the source space; the same as dipoles; or both with
        probabilities. Without a source where the measurements look like noise.

    Examples
    --------
    >>> from maxsparse.fields import brain
    >>> forward, noise_cov, info = brain.sphere_head(200)  # doctest: +SKIP
    >>> evoked = brain.simulate(forward, noise_cov, info, [40, 120], rng=0)  # doctest: +SKIP
    >>> brain.sparse_inverse(evoked, forward, noise_cov, return_as="all").places  # doctest: +SKIP
    array([ 40, 120])
    """
    with needs("source localisation"):
        import mne
    if return_as not in FORMS:
        raise ValueError(f"return_as must be one of {', '.join(FORMS)}, got {return_as!r}")
    if pick_ori not in (None, "vector"):
        raise ValueError(f"pick_ori must be None or 'vector', got {pick_ori!r}")
    if isinstance(noise, str) and noise != "auto":
        raise ValueError(f"noise must be 'auto' or a standard deviation, got {noise!r}")
    level = None if isinstance(noise, str) else check_number(noise, "noise", low=1e-300)
    between = check_flag(between, "between")
    with mne.utils.use_log_level("WARNING"), threads(None), _once():
        problem = prepared(mne, evoked, forward, noise_cov, loose=loose, depth=depth, pca=pca, rank=rank)
    if pick_ori == "vector" and problem.head.gain.o == 1:
        raise ValueError("pick_ori='vector' needs free or loose orientations; these are fixed")
    with threads(None):
        gain = problem.head.gain
        found = located(problem.M, gain, gain.o, noise=level, between=between, budget=budget)
        sources = answer(mne, evoked, problem, found, vector=pick_ori == "vector", between=between)
    if level is None and found.noise > 0 and not LEAST_NOISE <= found.noise <= MOST_NOISE:
        warnings.warn(
            f"the noise of evoked is {found.noise:.2g} times that of noise_cov: check the units (V, T) "
            "and the covariance, or amplitudes are wrong",
            UserWarning,
            stacklevel=2,
        )
    return {"stc": sources.stc, "dipoles": sources.dipoles, "all": sources}[return_as]


@contextmanager
def _once() -> Iterator[None]:
    """Show a warning once, though MNE-Python gives it in several of its steps."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in {(str(warning.message), warning.category): warning for warning in caught}.values():
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
