"""Random training problems: kinds of dictionaries, sizes and amplitudes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from maxsparse import dictionaries

__all__ = ["KINDS", "draw_amplitudes", "draw_dictionary"]

Rng = np.random.Generator


def draw_dictionary(rng: Rng, largest: int = 40, most_atoms: int = 200) -> NDArray[np.float64]:
    """Draw a kind, a size and a dictionary of at most `largest` rows."""
    n = round(8.0 * (largest / 8.0) ** rng.random())
    m = min(most_atoms, max(n + 2, round(n * 1.2 * (8.0 / 1.2) ** rng.random())))
    kinds = list(KINDS)
    kind = rng.choice(kinds, p=[KINDS[kind][0] for kind in kinds])
    return KINDS[kind][1](rng, n, m)


def _decaying(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    return dictionaries.decaying(n, m, power=rng.uniform(1.0, 2.5), rng=rng)


def _gaussian(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    return dictionaries.gaussian(n, m, rng=rng)


def _low_rank_plus(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    rank = int(rng.integers(1, n // 2))
    return dictionaries.low_rank_plus(n, m, rank=rank, epsilon=10.0 ** rng.uniform(-2, 0), rng=rng)


def _clustered(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    clusters = int(rng.integers(max(2, m // 8), m // 2 + 1))
    return dictionaries.clustered(n, m, clusters=clusters, epsilon=10.0 ** rng.uniform(-1.5, 0), rng=rng).matrix


def _lighting(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    """Draw a rig of n + 3 lights; m is ignored, since such a dictionary has one atom per light."""
    lights = rng.standard_normal((n + 3, 3)) * [0.5, 0.5, 0.2] + [0.0, 0.0, 1.0]
    return np.asarray(dictionaries.lighting(lights / np.linalg.norm(lights, axis=1, keepdims=True)), dtype=np.float64)


def _trigonometric(rng: Rng, n: int, m: int) -> NDArray[np.float64]:
    """Draw rows of the real Fourier or cosine transform of length m."""
    place = np.arange(m) + 0.5
    if rng.random() < 0.5:
        rows = rng.choice(m, n, replace=False)
        Phi = np.cos(np.pi / m * rows[:, None] * place)
    else:
        waves = rng.choice(np.arange(1, m // 2 + 1), min((n + 1) // 2, m // 2), replace=False)
        angles = 2 * np.pi / m * waves[:, None] * place
        Phi = np.concatenate([np.cos(angles), np.sin(angles)])[:n]
    unit: NDArray[np.float64] = Phi / np.linalg.norm(Phi, axis=0)
    return unit


KINDS: dict[str, tuple[float, Callable[[Rng, int, int], NDArray[np.float64]]]] = {
    "decaying": (0.4, _decaying),
    "gaussian": (0.2, _gaussian),
    "low_rank_plus": (0.1, _low_rank_plus),
    "clustered": (0.1, _clustered),
    "lighting": (0.1, _lighting),
    "trigonometric": (0.1, _trigonometric),
}


Law = Callable[[Rng, int], NDArray[np.float64]]


def draw_amplitudes(rng: Rng, normal_share: float = 0.0) -> Law | str:
    """Draw an amplitude distribution; the normal one, of which some nonzeros are tiny, with the given probability."""

    def tenfold(generator: Rng, size: int) -> NDArray[np.float64]:
        amplitudes: NDArray[np.float64] = 10.0 ** generator.uniform(-1.0, 0.0, size) * generator.choice(
            [-1.0, 1.0], size
        )
        return amplitudes

    def normal(generator: Rng, size: int) -> NDArray[np.float64]:
        return generator.standard_normal(size)

    if normal_share > 0 and rng.random() < normal_share:
        return normal
    laws: list[Law | str] = ["uniform", "gaussian", "unit", tenfold]
    return laws[int(rng.choice(4, p=[0.55, 0.15, 0.15, 0.15]))]
