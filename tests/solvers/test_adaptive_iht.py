"""Adaptive IHT against the layers of the existence proof, written out."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse.solvers import Layer, adaptive_layers, aiht
from maxsparse.theory import hard_threshold


def test_hard_threshold():
    x = np.array([[3.0, -5.0, 1.0, 4.0, -2.0]])
    np.testing.assert_array_equal(hard_threshold(x, 2), [[0, -5, 0, 4, 0]])
    np.testing.assert_array_equal(hard_threshold(x, 1, on=[0, 0, 1, 0, 0]), [[0, -5, 1, 0, 0]])
    np.testing.assert_array_equal(hard_threshold(x, 1, off=[0, 1, 0, 0, 0]), [[0, 0, 0, 4, 0]])
    np.testing.assert_array_equal(hard_threshold(x, 9, off=[0, 1, 0, 0, 0]), [[3, 0, 1, 4, -2]])
    np.testing.assert_array_equal(hard_threshold(x, 0), np.zeros((1, 5)))
    np.testing.assert_array_equal(hard_threshold([[1.0, -1.0, 1.0]], 2), [[1, -1, 0]])  # ties: the lower index
    with pytest.raises(ValueError, match="overlap"):
        hard_threshold(x, 1, on=[1, 0, 0, 0, 0], off=[1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match=r"on must have shape \(5,\) or \(1, 5\)"):
        hard_threshold(x, 1, on=[1, 0])


def proof_layers(parts, k_c, k_x, mu, iterations):
    """Write out the layers of the paper's proof: U alone, padding, then [U, A] with supports remembered."""
    U, A = parts.centers, parts.details
    n, c = U.shape
    m = A.shape[1]
    full = np.hstack([U, A])
    first = Layer(np.eye(c) - mu * U.T @ U, mu * U.T, k_c)
    padding = Layer(np.vstack([np.eye(c), np.zeros((m, c))]), np.zeros((c + m, n)), c + m)

    def on(z):
        return np.hstack([z[:, :c] != 0, np.zeros((len(z), m), dtype=bool)])

    def off(z):
        clusters = z[:, :c] != 0
        return np.hstack([~clusters, ~clusters[:, parts.labels]])

    second = Layer(np.eye(c + m) - mu * full.T @ full, mu * full.T, k_x, on, off)
    return [first] * iterations + [padding] + [second] * iterations


def test_compiled_form_finds_what_the_layers_of_the_proof_find():
    parts = ms.dictionaries.clustered(80, 60, clusters=20, epsilon=1e-3, rng=0)
    X, Y = ms.signals.sample(parts, 30, sparsity=2, rng=1)
    z = adaptive_layers(Y, proof_layers(parts, k_c=2, k_x=2, mu=0.25, iterations=400))
    written_out = z[:, 20:] / (parts.epsilon * parts.norms)
    compiled = aiht(parts, Y, sparsity=2)
    agree = (np.argsort(-np.abs(written_out), axis=1)[:, :2] == np.argsort(-compiled.scores, axis=1)[:, :2]).all(axis=1)
    assert agree.mean() > 0.9
    assert ms.metrics.strict_accuracy(X, np.abs(written_out)) > 0.9
    assert ms.metrics.exact_recovery(X, compiled.coef, tol=1e-5) > 0.9


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-5])
def test_keeps_recovering_as_clusters_collapse(epsilon):
    parts = ms.dictionaries.clustered(60, 180, clusters=60, epsilon=epsilon, rng=0)
    X, Y = ms.signals.sample(parts, 60, sparsity=2, rng=1)
    adaptive = ms.metrics.strict_accuracy(X, aiht(parts, Y, sparsity=2).scores)
    assert adaptive > 0.85
    if epsilon <= 1e-3:
        plain = ms.solvers.iht(parts, Y, sparsity=2)
        assert ms.metrics.strict_accuracy(X, plain.scores) < 0.2


def nested_layers(nested, k, mu, iterations):
    """Write out three levels: U alone, then [U, W], then [U, W, A], each with the supports before it remembered."""
    found = []
    starts = np.cumsum([0, *(part.shape[1] for part in nested.parts)])
    for level in range(3):
        columns = np.hstack(nested.parts[: level + 1])
        size = columns.shape[1]
        known = starts[level]
        if level:  # the layer before, padded with zeros
            padding = np.vstack([np.eye(known), np.zeros((size - known, known))])
            found.append(Layer(padding, np.zeros((size, len(columns))), size))

        def on(z, known=known, size=size):
            return np.hstack([z[:, :known] != 0, np.zeros((len(z), size - known), dtype=bool)])

        def off(z, level=level, known=known):
            if level == 0:
                return np.zeros(z.shape, dtype=bool)
            before = starts[level - 1]
            kept = z[:, before:known] != 0
            return np.hstack([z[:, :known] == 0, ~kept[:, nested.parents[level - 1]]])

        step = np.eye(size) - mu * columns.T @ columns
        found += [Layer(step, mu * columns.T, k[level], on, off)] * iterations
    return found


def test_clusters_within_clusters_against_layers_written_out():
    nested = ms.dictionaries.nested(80, 60, clusters=(6, 20), epsilon=0.02, rng=0)
    X, Y = ms.signals.sample(nested, 30, sparsity=2, rng=1)
    z = adaptive_layers(Y, nested_layers(nested, (2, 2, 2), mu=0.25, iterations=300))
    written_out = z[:, 26:] / nested.weights
    compiled = aiht(nested, Y, sparsity=2, cluster_sparsity=(2, 2))
    agree = ((written_out != 0) == (compiled.coef != 0)).all(axis=1)
    assert agree.mean() > 0.9
    assert ms.metrics.strict_accuracy(X, np.abs(written_out)) > 0.9
    assert ms.metrics.exact_recovery(X, compiled.coef, tol=1e-5) > 0.9
    assert ms.metrics.strict_accuracy(X, ms.solvers.iht(nested, Y, sparsity=2).scores) < 0.2


def test_one_level_of_nesting_is_the_clustered_model():
    options = {"epsilon": 1e-3, "rng": 0}
    clustered = ms.dictionaries.clustered(60, 90, clusters=30, **options)
    nested = ms.dictionaries.nested(60, 90, clusters=(30,), **options)
    _X, Y = ms.signals.sample(clustered, 20, sparsity=2, rng=1)
    first, second = (
        aiht(clustered, Y, sparsity=2, cluster_sparsity=2),
        aiht(nested, Y, sparsity=2, cluster_sparsity=[2]),
    )
    np.testing.assert_array_equal(first.support, second.support)
    np.testing.assert_allclose(first.coef, second.coef, atol=1e-9)


def test_atoms_of_any_length():
    parts = ms.dictionaries.clustered(60, 90, clusters=30, epsilon=1e-3, normalise=False, rng=0)
    X, Y = ms.signals.sample(parts, 40, sparsity=2, rng=1)
    assert ms.metrics.exact_recovery(X, aiht(parts, Y, sparsity=2).coef, tol=1e-5) > 0.9


def test_two_atoms_of_one_cluster():
    parts = ms.dictionaries.clustered(60, 80, clusters=20, epsilon=1e-3, rng=0)
    x = np.zeros((1, 80))
    x[0, [4, 6]] = [1.0, 0.7]  # both in cluster 1
    assert parts.labels[4] == parts.labels[6]
    result = aiht(parts, x @ parts.matrix.T, sparsity=2, cluster_sparsity=1)
    np.testing.assert_allclose(result.coef, x, atol=1e-6)


def test_whitened_parts():
    parts = ms.dictionaries.clustered(30, 60, clusters=30, epsilon=1e-3, rng=0)
    X, Y = ms.signals.sample(parts, 60, sparsity=2, rng=1)
    assert ms.metrics.strict_accuracy(X, aiht(parts, Y, sparsity=2, precondition=True).scores) > 0.5


def test_whitening_is_regularised_by_the_noise():
    # [U, A] of condition 9000: whitened without a word on the noise, nothing is left of the signals.
    parts = ms.dictionaries.clustered(40, 32, clusters=8, epsilon=0.3, rng=0)
    X, Y = ms.signals.sample(parts, 200, sparsity=2, noise=1e-2, rng=1)
    unregularised = ms.theory.precondition(np.hstack([parts.centers, parts.details]))
    strict = [
        ms.metrics.strict_accuracy(X, aiht(parts, Y, sparsity=2, noise=1e-2, precondition=change).scores)
        for change in (True, unregularised)
    ]
    assert strict[0] > 0.7
    assert strict[1] < 0.1


@pytest.mark.parametrize("precondition", [False, True])
def test_centres_alone_are_no_answer(precondition):
    # Details of size ε lie below this noise: the first phase fits y, and the second must choose atoms all the same.
    parts = ms.dictionaries.clustered(30, 60, clusters=30, epsilon=1e-2, rng=0)
    X, Y = ms.signals.sample(parts, 100, sparsity=2, noise=1e-3, rng=1)
    result = aiht(parts, Y, sparsity=2, noise=1e-3, precondition=precondition)
    assert result.coef.any(axis=1).all()
    assert ms.metrics.strict_accuracy(X, result.scores) > 0.5


def test_bad_arguments():
    parts = ms.dictionaries.clustered(10, 20, clusters=5, rng=0)
    with pytest.raises(ValueError, match=r"needs a ClusteredDictionary .* got ndarray"):
        aiht(parts.matrix, np.ones((1, 10)), sparsity=1)
    with pytest.raises(ValueError, match="cluster_sparsity must be from 0 to 5, got 6"):
        aiht(parts, np.ones((1, 10)), sparsity=1, cluster_sparsity=6)
    nested = ms.dictionaries.nested(10, 20, clusters=(2, 5), rng=0)
    with pytest.raises(ValueError, match="cluster_sparsity needs 2 numbers, one per level"):
        aiht(nested, np.ones((1, 10)), sparsity=1, cluster_sparsity=1)
    with pytest.raises(ValueError, match="layers is empty"):
        adaptive_layers(np.ones((1, 3)), [])
    with pytest.raises(ValueError, match="layer 1 does not fit"):
        adaptive_layers(np.ones((1, 3)), [Layer(np.eye(4), np.ones((4, 3)), 1), Layer(np.eye(5), np.ones((5, 3)), 1)])
