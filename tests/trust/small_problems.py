"""Random small problems for hypothesis."""

import numpy as np
from hypothesis import strategies as st

import maxsparse as ms


@st.composite
def problems(draw, clustered=False, widest=14, kinds=("gaussian", "decaying", "scaled", "low_rank_plus")):
    """Draw (Φ, X, Y, d): a dictionary of some kind with d-sparse signals that are in general position."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(2, 8))
    m = draw(st.integers(3, widest))
    if clustered:
        n, m = n + 4, m + 4
        dictionary = ms.dictionaries.clustered(n, m, clusters=draw(st.integers(2, m // 2)), epsilon=0.3, rng=rng)
    else:
        kind = draw(st.sampled_from(kinds))
        if kind == "low_rank_plus":
            dictionary = ms.dictionaries.low_rank_plus(n, m, rank=1, epsilon=0.5, rng=rng)
        elif kind == "scaled":
            dictionary = ms.dictionaries.gaussian(n, m, rng=rng) * 10.0 ** rng.uniform(-2, 2, m)
        else:
            dictionary = getattr(ms.dictionaries, kind)(n, m, rng=rng)
    d = draw(st.integers(0, max(1, min(n, m) // 2)))
    X, Y = ms.signals.sample(dictionary, draw(st.integers(1, 5)), sparsity=d, rng=rng)
    return dictionary, X, Y, d
