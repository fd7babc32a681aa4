"""What figures and verdicts are computed from."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse.experiments import Data, Record
from maxsparse.experiments.curves import decoded
from maxsparse.experiments.curves import test_rng as rng_of
from maxsparse.experiments.duels import duel
from maxsparse.experiments.phase import weak_threshold


def curve(values, start=1):
    return Data(Record({"d": d, "seed": s}, {"strict": v}) for d, v in enumerate(values, start) for s in (0, 1))


def test_a_duel_counts_what_the_number_of_signals_can_tell():
    found = duel(curve([0.0, 0.9, 0.5, 0.2]), curve([1.0, 0.8, 0.5, 0.4]), "strict", 1000)
    assert [cell[0] for cell in found.cells] == [2, 3, 4]  # d = 1 is left out
    assert (found.ahead, found.behind) == ([2], [4])
    assert found.mean == pytest.approx((0.1 + 0.0 - 0.2) / 3)
    assert found.row == ["0.533", "0.567", "2", "3", "4", "–"]
    few = duel(curve([0.0, 0.9, 0.5, 0.2]), curve([1.0, 0.8, 0.5, 0.4]), "strict", 10)
    assert (few.ahead, few.behind) == ([], [])


def test_a_duel_leaves_out_where_both_recover_all_or_nothing():
    found = duel(curve([1.0, 0.5, 0.0], 2), curve([0.995, 0.2, 0.005], 2), "strict", 100_000)
    assert (found.ahead, found.behind, found.higher) == ([3], [], True)
    assert found.row[2:] == ["3", "–", "–", "2, 4"]
    assert found.mean == pytest.approx((0.005 + 0.3 - 0.005) / 3)  # means are over all d
    assert duel(curve([0.0], 2), curve([0.0], 2), "strict", 10).higher is None


def test_the_standard_error_of_a_duel_against_simulation():
    rng = np.random.default_rng(0)
    p, q, N, seeds = 0.7, 0.6, 50, 2
    differences = (rng.binomial(N * seeds, p, 20_000) - rng.binomial(N * seeds, q, 20_000)) / (N * seeds)
    ((_, _, _, error),) = duel(curve([p], 2), curve([q], 2), "strict", N).cells
    assert error == pytest.approx(differences.std(), rel=0.03)


def test_nothing_to_compare():
    assert np.isnan(duel(curve([0.5]), curve([0.5]), "strict", 10).mean)


def test_decoding_finds_supports_among_the_n_best_scores():
    Phi = ms.dictionaries.gaussian(8, 20, rng=0)
    X, Y = ms.signals.sample(Phi, 50, sparsity=3, rng=1)
    scores = np.random.default_rng(2).uniform(0.0, 1.0, X.shape)
    scores[X != 0] = np.random.default_rng(3).uniform(0.9, 1.0, (X != 0).sum())  # among the best, not the best
    assert ms.metrics.strict_accuracy(X, scores) < 0.9
    assert ms.metrics.exact_recovery(X, decoded(Phi, Y, scores)) > 0.95


def test_test_signals_differ_between_seeds_and_places():
    drawn = [rng_of(*where).integers(2**60) for where in ((0, 1), (0, 2), (1, 1), (1, 2, 3))]
    assert len(set(drawn)) == 4
    assert rng_of(0, 1).integers(2**60) == drawn[0]


@pytest.mark.parametrize(("delta", "rho"), [(0.1, 0.188), (0.25, 0.267), (0.5, 0.386)])
def test_the_transition_of_donoho_and_tanner(delta, rho):
    """Values that the literature on compressed sensing gives for random signs."""
    assert weak_threshold(delta) == pytest.approx(rho, abs=2e-3)


def test_the_transition_against_linear_programs():
    m = 120
    for delta in (0.3, 0.6):
        n = round(delta * m)
        Phi = ms.dictionaries.gaussian(n, m, rng=0)
        share = []
        for factor in (0.7, 1.3):
            X, Y = ms.signals.sample(Phi, 30, sparsity=round(factor * weak_threshold(delta) * n), rng=1)
            share.append(ms.metrics.strict_accuracy(X, ms.solvers.l1(Phi, Y).scores))
        assert share[0] > 0.8
        assert share[1] < 0.2
