"""What every solver promises for snapshots, complex numbers, groups and signs, tested on every one that can."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse.solvers import METHODS

KINDS = {
    "snapshots": {"L": 3},
    "many snapshots": {"L": 13},
    "complex": {"complex_": True},
    "complex snapshots": {"complex_": True, "L": 3},
    "groups": {"groups": True},
    "groups and snapshots": {"groups": True, "L": 3},
    "complex groups": {"groups": True, "complex_": True},
    "positive": {"positive": True},
    "positive snapshots": {"positive": True, "L": 3},
    "positive groups": {"positive": True, "groups": True},
}
N, n, m = 6, 10, 20
LABELS = np.repeat(np.arange(13), [2, 1, 3, 1, 2, 1, 2, 1, 2, 1, 2, 1, 1])[np.random.default_rng(0).permutation(20)]


def draw(kind, k=2):
    """Return Φ, X, Y and the options of an easy noiseless problem."""
    made = {"L": None, "complex_": False, "groups": False, "positive": False} | KINDS[kind]
    rng = np.random.default_rng(3)

    def normal(*shape):
        return rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if made["complex_"] else 0)

    Phi = normal(n, m)
    Phi /= np.linalg.norm(Phi, axis=0)
    labels = LABELS if made["groups"] else np.arange(m)
    X = normal(N, made["L"] or 1, m)
    X += np.sign(X.real)  # not too small
    for i in range(N):
        chosen = rng.choice(np.unique(labels), k, replace=False)
        X[i][:, ~np.isin(labels, chosen)] = 0
    X = np.abs(X) if made["positive"] else X
    X = X if made["L"] else X[:, 0]
    options = {key: value for key, value in (("positive", made["positive"]),) if value}
    return Phi, X, X @ Phi.T, options | ({"groups": LABELS} if made["groups"] else {})


def able(kind):
    made = KINDS[kind]
    needs = {"snapshots": "L", "complex": "complex_", "groups": "groups", "positive": "positive"}
    # l1 refuses these two, with the names of methods that can; see its own tests.
    return [
        name
        for name in METHODS
        if all(name in METHODS.able(ability) for ability, key in needs.items() if made.get(key))
        and not (name == "l1" and kind in ("positive snapshots", "positive groups"))
    ]


CASES = [(method, kind) for kind in KINDS for method in able(kind)]


def solve(method, Phi, Y, k=2, **options):
    if method == "omp" or "sparsity" in METHODS.entry(method).needs:
        options.setdefault("sparsity", k)
    return METHODS[method](Phi, Y, **options)


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_recovers_an_easy_problem(method, kind):
    Phi, X, Y, options = draw(kind)
    result = solve(method, Phi, Y, **options)
    assert result.coef.shape == X.shape
    assert result.coef.dtype == np.result_type(Phi, Y)
    assert result.support.shape == result.scores.shape == (N, m)
    assert result.residual.shape == result.iterations.shape == (N,)
    assert result.residual.dtype == result.scores.dtype == np.float64
    used = (X != 0).any(axis=1) if X.ndim == 3 else X != 0
    order = np.argsort(-result.scores, axis=1)
    right = [used[i, order[i, : used[i].sum()]].all() for i in range(N)]
    assert np.mean(right) >= 5 / 6
    axes = tuple(range(1, X.ndim))
    np.testing.assert_allclose(
        result.residual, np.linalg.norm(Y - result.coef @ Phi.T, axis=axes[-1] if len(axes) == 1 else axes), atol=1e-9
    )
    if "positive" in kind:
        assert (result.coef >= 0).all()


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_same_bits_whatever_the_batch(method, kind):
    Phi, _, Y, options = draw(kind)
    whole = solve(method, Phi, Y, precondition=True, **options)
    for rows in (slice(0, 1), slice(2, 5)):
        np.testing.assert_array_equal(
            solve(method, Phi, Y[rows], precondition=True, n_threads=1, **options).coef, whole.coef[rows]
        )


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_awkward_inputs(method, kind):
    Phi, _, Y, options = draw(kind)
    expected = solve(method, Phi, Y, **options).coef
    readonly = Y.copy()
    readonly.flags.writeable = False
    for same in (np.asfortranarray(Y), np.repeat(Y, 2, axis=0)[::2], Y.tolist(), readonly):
        np.testing.assert_array_equal(solve(method, np.asfortranarray(Phi), same, **options).coef, expected)
    empty = solve(method, Phi, Y[:0], **options)
    assert empty.coef.shape == (0, *Y.shape[1:-1], m)
    zero = solve(method, Phi, Y * 0, **options)
    assert not zero.coef.any()
    assert zero.converged.all()
    for bad, message in ((np.nan, "Y holds NaN"), (np.inf, "Y holds .*inf")):
        broken = Y.copy()
        broken[1, ..., 2] = bad
        with pytest.raises(ValueError, match=message):
            solve(method, Phi, broken, **options)
    if Y.ndim == 3:
        with pytest.raises(ValueError, match="Y has no snapshots"):
            solve(method, Phi, Y[:, :0], **options)


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_single_precision(method, kind):
    Phi, X, Y, options = draw(kind)
    single = np.complex64 if np.iscomplexobj(Y) else np.float32
    if "tol" in METHODS.entry(method).can or method == "omp":
        options["tol"] = 1e-4
    result = solve(method, Phi.astype(single), Y.astype(single), **options)
    assert result.coef.dtype == single
    assert result.residual.dtype == np.float32
    assert np.linalg.norm(result.coef - X) < 0.6 * np.linalg.norm(X)


@pytest.mark.parametrize(("method", "kind"), CASES)
def test_sparsity_counts_blocks(method, kind):
    Phi, _, Y, options = draw(kind)
    result = solve(method, Phi, Y, k=1, **options, sparsity=1)
    labels = options.get("groups", np.arange(m))
    assert max(len(np.unique(labels[row])) for row in result.support) <= 1  # exact: none fits
    largest = len(np.unique(labels))
    with pytest.raises(ValueError, match="sparsity must be from 0 to"):
        solve(method, Phi, Y, **options, sparsity=min(n, largest) + 1)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_a_method_cannot_do(method):
    """The error names methods that can, from the function and from ms.solve alike."""
    clustered = ms.dictionaries.clustered(n, m, clusters=10, epsilon=0.5, rng=0)
    Phi = clustered if method == "aiht" else draw("snapshots")[0]
    sparsity = {"sparsity": 2}
    for ability, Y in (("complex", np.ones((2, n), dtype=complex)), ("snapshots", np.ones((2, 3, n)))):
        if method in METHODS.able(ability):
            continue
        message = rf"method '{method}' cannot take .*; use .*'omp'"
        with pytest.raises(ValueError, match=message):
            ms.solve(Phi, Y, method=method, **sparsity)
        with pytest.raises(ValueError, match=message):
            METHODS[method](Phi, Y, **sparsity)
    for ability, value in (("positive", True), ("groups", LABELS)):
        if method not in METHODS.able(ability):
            with pytest.raises(ValueError, match=rf"method '{method}' cannot .*\({ability}=\); use .*'omp'"):
                ms.solve(Phi, np.ones((2, n)), method=method, **sparsity, **{ability: value})


@pytest.mark.parametrize("method", METHODS.able("snapshots"))
def test_one_snapshot_and_single_groups_are_the_plain_problem(method):
    Phi, _, Y, _ = draw("snapshots")
    Y = Y[:, 0]
    plain = solve(method, Phi, Y)
    np.testing.assert_array_equal(solve(method, Phi, Y[:, None]).coef[:, 0], plain.coef)
    if method in METHODS.able("groups"):
        np.testing.assert_array_equal(solve(method, Phi, Y, groups=np.arange(m)[::-1]).coef, plain.coef)


@pytest.mark.parametrize("kind", ["groups", "complex groups"])
def test_own_preconditioner_in_the_order_of_the_callers_atoms(kind):
    Phi, _, Y, options = draw(kind)
    pair = ms.theory.precondition(Phi, groups=LABELS)
    whitened = solve("omp", Phi, Y, precondition=True, **options)
    np.testing.assert_allclose(solve("omp", Phi, Y, precondition=pair, **options).coef, whitened.coef, atol=1e-9)


def test_own_preconditioner_must_keep_signs():
    Phi, _, Y, options = draw("positive")
    for method in METHODS.able("positive"):
        with pytest.raises(ValueError, match="D of precondition must be positive"):
            solve(method, Phi, Y, precondition=(np.eye(n), -np.ones(m)), **options)


@pytest.mark.parametrize("kind", ["many snapshots", "complex groups"])
@pytest.mark.parametrize("method", sorted(set(METHODS.able("callback")) & set(METHODS.able("snapshots"))))
def test_watching_changes_nothing(method, kind):
    Phi, _, Y, options = draw(kind)
    seen = []
    watched = solve(method, Phi, Y, precondition=True, callback=lambda t, X: seen.append(X), **options)
    np.testing.assert_array_equal(watched.coef, solve(method, Phi, Y, precondition=True, **options).coef)
    np.testing.assert_array_equal(seen[-1], watched.coef)


def test_result_of_snapshots():
    Phi, _, Y, _ = draw("complex snapshots")
    result = ms.solvers.omp(Phi, Y, sparsity=2)
    assert repr(result).startswith("Result(omp: 6 signals of 3 snapshots × 20 atoms, 2 nonzeros (median)")
    np.testing.assert_array_equal(result.support, (result.coef != 0).any(axis=1))
    np.testing.assert_allclose(result.scores, np.sqrt((np.abs(result.coef) ** 2).sum(axis=1)))
    assert result[2].coef.shape == (1, 3, m)
