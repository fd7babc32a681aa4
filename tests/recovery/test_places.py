"""Credible sets where supports were drawn: places that atoms may fill."""

import numpy as np
import pytest

from maxsparse.recovery.places import matched, places_of_draws
from maxsparse.recovery.posterior import Posterior

# Atoms 0, 1, 2 are alike, so are 3, 4, and 5, 6.
COSINES = np.full((8, 8), 0.1)
for family in ([0, 1, 2], [3, 4], [5, 6]):
    COSINES[np.ix_(family, family)] = 0.9


def test_supports_are_matched_to_the_most_similar_places():
    assert sorted(matched([0, 3], [4, 1], COSINES)) == [(0, 1), (1, 4)]
    assert sorted(matched([0, 3], [1, 0], COSINES)) == [(0, 0), (1, 1)]  # the atom itself comes first
    assert sorted(matched([0], [1, 5], COSINES)) == [(0, 1), (1, 5)]


def test_alternatives_share_a_place_and_rare_ones_join_it():
    draws = [[0, 3]] * 50 + [[1, 3]] * 40 + [[2, 4]] * 10
    inclusion = np.array([0.5, 0.4, 0.1, 0.9, 0.1, 0.0, 0.004, 0.0])
    first, second = places_of_draws([0, 3], draws, inclusion, COSINES, 0.95)
    assert first == pytest.approx({0: 0.5, 1: 0.4, 2: 0.1, 6: 0.004})
    assert second == pytest.approx({3: 0.9, 4: 0.1})


def test_places_that_are_often_empty_are_put_together():
    """Either 3 or 5, never both: neither place alone says that something is there."""
    draws = [[0, 3]] * 50 + [[0, 5]] * 50
    sure, either = places_of_draws([0, 3], draws, np.zeros(8), COSINES, 0.95)
    assert sure == pytest.approx({0: 1.0})
    assert either == pytest.approx({3: 0.5, 5: 0.5})


def test_a_place_that_is_mostly_empty_joins_another():
    draws = [[0]] * 80 + [[0, 3]] * 20
    (only,) = places_of_draws([0], draws, np.zeros(8), COSINES, 0.95)
    assert only == pytest.approx({0: 1.0, 3: 0.2})
    assert places_of_draws([], [[]] * 10, np.zeros(8), COSINES, 0.95) == []


def test_draws_stay_with_their_signals():
    listed = Posterior.of(np.ones((3, 1)), np.ones((3, 1), int), np.array([[[0]], [[3]], [[5]]], np.int32))
    size = np.array([[1, 1], [-1, -1], [1, 0]])
    posterior = listed.with_draws(size, np.array([[[1], [2]], [[0], [0]], [[6], [0]]], np.int32))
    joined = Posterior.join([listed[:1], posterior])[[3, 1, 0, 2]]
    drawn = [[S.tolist() for S, _ in joined.drawn.alternatives(i)] for i in range(4)]
    assert drawn == [[[6], []], [[1], [2]], [], []]
    inclusion = np.array([0.0, 0.5, 0.5, 0, 0, 0, 0, 0])
    (found,) = joined.credible_sets(1, COSINES, inclusion)
    assert sorted(found.atoms.tolist()) == [1, 2]
    (found,) = joined.credible_sets(2, COSINES, np.eye(8)[0])
    assert found.atoms.tolist() == [0]


def test_an_atom_that_stands_alone_or_in_addition_keeps_its_place():
    """0 or 1, or both: 1 alone stands where 0 stood, although there is a place for it next to 0 as well."""
    atoms = np.array([[[0, 3, 0], [0, 1, 3], [1, 3, 0]]], np.int32)
    posterior = Posterior.of(np.array([[0.57, 0.28, 0.15]]), np.array([[2, 3, 2]]), atoms)
    inclusion = np.array([0.85, 0.43, 0, 1, 0, 0, 0, 0])
    first, second = posterior.credible_sets(0, COSINES, inclusion)
    assert dict(zip(first.atoms.tolist(), first.probability, strict=True)) == pytest.approx({0: 0.85, 1: 0.15})
    assert second.atoms.tolist() == [3]
