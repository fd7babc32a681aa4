"""What a caller says about the noise, brought to white noise of one size; and a warning where it is wrong."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxsparse._core.validation import check_number

if TYPE_CHECKING:
    from maxsparse.recovery.answers import Recovery

__all__ = ["Noise", "check_noise", "warn_of_noise"]

REFUTED_SHARE = 0.05  # of the signals: fewer that refute the given noise level are not worth a warning


@dataclass(frozen=True, eq=False)
class Noise:
    """White noise of standard deviation σ, after y ↦ Ly where L is not None.

    Attributes
    ----------
    sigma : float
        0 for none.
    whitener : ndarray of shape (n, n) or None
        L with LᴴL = C⁻¹ for a covariance C; the noise on Ly has the standard deviation 1.
    unknown : bool
        Every signal is exact or has a noise level that is to be learned.
    """

    sigma: float
    whitener: Any = None
    unknown: bool = False


def check_noise(noise: Any, n: int, *, complex_too: bool = False) -> Noise:
    """Read a noise level: "auto", σ, the σ of every measurement (n,), or a covariance (n, n)."""
    if isinstance(noise, str):
        if noise != "auto":
            raise ValueError(f'noise must be "auto", a number or an array, got {noise!r}')
        return Noise(0.0, unknown=True)
    if np.ndim(noise) == 0:
        return Noise(check_number(noise, "noise", low=0.0))
    try:
        values: Any = np.asarray(noise)
        values = values.astype(np.complex128 if complex_too and np.iscomplexobj(values) else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"noise cannot be read as numbers: {error}") from error
    if not np.isfinite(values).all():
        raise ValueError("noise holds values that are not finite; give every measurement a standard deviation")
    if values.shape == (n,):
        values = values.real
        if (values <= 0).any():
            j = int(np.flatnonzero(values <= 0)[0])
            raise ValueError(
                f"noise has {values[j]:g} for measurement {j}; with one value per measurement all must be positive "
                "(a small one for a measurement without noise)"
            )
        return Noise(1.0, np.diag(1.0 / values))
    if values.shape != (n, n):
        raise ValueError(
            f"noise must be a number, {n} standard deviations (one per measurement) or a covariance of shape "
            f"{(n, n)}; got shape {values.shape}"
        )
    if not np.allclose(values, values.conj().T, rtol=1e-8, atol=1e-12 * np.abs(values).max()):
        raise ValueError("noise is not a covariance: it is not symmetric (Hermitian, of complex data)")
    try:
        factor = np.linalg.cholesky(values)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "noise is not a covariance of full rank: it must be positive definite; add a small multiple of the identity"
        ) from error
    return Noise(1.0, np.linalg.inv(factor))


def warn_of_noise(result: Recovery, noise: Noise, depth: int = 3) -> None:
    """Report a given noise level that the signals refute; `depth` is the number of calls up to the user's."""
    wrong = result.noise != noise.sigma
    if not np.count_nonzero(wrong) > REFUTED_SHARE * len(result):
        return
    typical = float(np.median(result.noise[wrong]))
    level = f"{typical:.3g}" if noise.whitener is None else f"{typical:.3g} times the given one"
    given = f"noise={noise.sigma:g}" if noise.whitener is None else "the given noise"
    warnings.warn(
        f"{given} does not fit {np.count_nonzero(wrong)} of {len(result)} signals: a level of about {level} is far "
        "more probable there. Their answers and confidences are for the level learned from each of them "
        "(result.noise). Pass the right level, or noise='auto'",
        stacklevel=depth,
    )
