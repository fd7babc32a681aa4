"""What every solver promises, tested on every solver."""

import warnings

import numpy as np
import pytest

import maxsparse as ms
from maxsparse._core.validation import DuplicateAtomsWarning
from maxsparse.solvers import METHODS

NEEDS_SPARSITY = {"omp"} | {name for name in METHODS if "sparsity" in METHODS.entry(name).needs}
WATCHABLE = METHODS.able("callback")
MAY_REFUSE_NOISE = set(METHODS) - set(METHODS.able("noise"))
ITERATIVE = {"iht", "ista", "fista", "sbl", "aiht", "subspace_pursuit", "vamp"}
POSITIVE = {"nnls"}  # for coefficients of at least zero only
LOG_ODDS = {"vamp"}  # its scores; those of the others are the coefficients' magnitudes


@pytest.fixture(scope="module")
def dictionary():
    return ms.dictionaries.clustered(10, 24, clusters=12, epsilon=0.5, rng=0)


@pytest.fixture(scope="module")
def problem(dictionary):
    X, Y = ms.signals.sample(dictionary, 37, sparsity=2, rng=1)
    return dictionary, X, Y


def solve(method, Phi, Y, **options):
    if method in NEEDS_SPARSITY:
        options.setdefault("sparsity", 2)
    return METHODS[method](Phi, Y, **options)


@pytest.fixture(params=sorted(METHODS))
def method(request):
    return request.param


def test_recovers_an_easy_problem(method):
    # Adaptive IHT is made for tight clusters, everything else for loose ones.
    dictionary = ms.dictionaries.clustered(40, 60, clusters=30, epsilon=0.01 if method == "aiht" else 1.0, rng=2)
    X, Y = ms.signals.sample(dictionary, 50, sparsity=2, rng=3)
    if method in POSITIVE:
        X, Y = np.abs(X), np.abs(X) @ dictionary.matrix.T
    result = solve(method, dictionary, Y)
    assert result.method == method
    assert ms.metrics.strict_accuracy(X, result.scores) > 0.9
    np.testing.assert_allclose(
        result.residual, np.linalg.norm(Y - result.coef @ dictionary.matrix.T, axis=1), atol=1e-12
    )
    assert not result.certified.any()
    assert method in LOG_ODDS or (result.scores == np.abs(result.coef)).all()


@pytest.mark.parametrize("precondition", [False, True])
def test_same_bits_whatever_the_batch(method, problem, precondition):
    Phi, _, Y = problem
    whole = solve(method, Phi, Y, precondition=precondition)
    for rows in (slice(0, 1), slice(5, 11), slice(20, 37)):
        part = solve(method, Phi, np.ascontiguousarray(Y[rows]), precondition=precondition)
        np.testing.assert_array_equal(part.coef, whole.coef[rows])
        np.testing.assert_array_equal(part.iterations, whole.iterations[rows])
        np.testing.assert_array_equal(part.residual, whole.residual[rows])


def test_same_bits_whatever_the_batch_under_noise(method, problem):
    if method in MAY_REFUSE_NOISE:
        with pytest.raises(ValueError, match="noise"):
            solve(method, *problem[::2], noise=0.1)
        return
    Phi, _, Y = problem
    Y = Y * np.geomspace(0.1, 10, len(Y))[:, None]  # several levels of regularisation in one batch
    whole = solve(method, Phi, Y, precondition=True, noise=0.01)
    for row in (0, 17, 36):
        np.testing.assert_array_equal(
            solve(method, Phi, Y[row : row + 1], precondition=True, noise=0.01).coef, whole[row].coef
        )


def test_same_bits_whatever_the_threads(method, problem):
    Phi, _, Y = problem
    one, two = (solve(method, Phi, Y, n_threads=count) for count in (1, None))
    np.testing.assert_array_equal(one.coef, two.coef)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scaling_signals_scales_the_answer(method, problem, scale):
    Phi, _, Y = problem
    np.testing.assert_allclose(
        solve(method, Phi, Y * scale).coef / scale, solve(method, Phi, Y).coef, rtol=1e-5, atol=1e-9
    )


def test_coefficients_are_those_of_the_callers_dictionary(method, problem):
    Phi, _, Y = problem
    result = solve(method, Phi, Y, precondition=True)
    np.testing.assert_allclose(result.residual, np.linalg.norm(Y - result.coef @ np.asarray(Phi).T, axis=1), atol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda Y: np.asfortranarray(Y),
        lambda Y: np.repeat(Y, 2, axis=0)[::2],
        lambda Y: Y.tolist(),
        lambda Y: _readonly(Y),
    ],
    ids=["fortran", "strided", "list", "readonly"],
)
def test_any_memory_layout(method, problem, change):
    Phi, _, Y = problem
    np.testing.assert_array_equal(solve(method, Phi, change(Y)).coef, solve(method, Phi, Y).coef)


def _readonly(Y):
    copy = Y.copy()
    copy.flags.writeable = False
    return copy


def test_float32(method, problem):
    Phi, X, Y = problem
    if method == "aiht":  # its dictionary is always float64
        assert solve(method, Phi, Y.astype(np.float32)).coef.dtype == np.float64
        return
    # looser goals, since float32 cannot meet the default ones
    tol = {} if method in ("l1", "reweighted_l1") else {"tol": 1e-4}
    single = solve(method, Phi.matrix.astype(np.float32), Y.astype(np.float32), **tol)
    double = solve(method, Phi.matrix, Y, **tol)
    assert single.coef.dtype == single.residual.dtype == single.scores.dtype == np.float32
    strict = [ms.metrics.strict_accuracy(X, result.scores) for result in (single, double)]
    assert strict[0] == pytest.approx(strict[1], abs=0.1)


def test_no_signals(method, problem):
    result = solve(method, problem[0], np.zeros((0, 10)))
    assert result.coef.shape == (0, 24)
    assert result.residual.shape == result.iterations.shape == result.converged.shape == (0,)


def test_zero_signal(method, problem):
    Phi, _, Y = problem
    batch = Y[:3].copy()
    batch[1] = 0
    result = solve(method, Phi, batch)
    assert not result.coef[1].any()
    assert result.residual[1] == 0
    assert result.converged[1]


def test_bad_signals(method, problem):
    Phi, _, Y = problem
    bad = Y.copy()
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match="Y holds NaN at row 3, column 2"):
        solve(method, Phi, bad)
    with pytest.raises(ValueError, match=r"fits transposed; pass Y\.T"):
        solve(method, Phi, Y[:12].T, sparsity=2)


@pytest.mark.parametrize("k", [-1, 11, 2.5, [1, 2, 3]])
def test_bad_sparsity(method, problem, k):
    with pytest.raises(ValueError, match="sparsity must be"):
        solve(method, *problem[::2], sparsity=k)


def test_sparsity_zero(method, problem):
    result = solve(method, *problem[::2], sparsity=0)
    assert not result.coef.any()


def test_sparsity_is_kept(method, problem):
    Phi, _, Y = problem
    if method == "exact":
        Y = Y[:5]
    result = solve(method, Phi, Y, sparsity=3)
    assert (result.support.sum(axis=1) <= 3).all()


def test_duplicate_atoms(method):
    rng = np.random.default_rng(0)
    dictionary = ms.dictionaries.clustered(10, 24, clusters=12, epsilon=0.5, rng=0)
    for part in (dictionary.matrix, dictionary.details):
        part[:, 1] = part[:, 0]
    dictionary.scales[1], dictionary.norms[1] = dictionary.scales[0], dictionary.norms[0]
    Y = np.outer(rng.uniform(1, 2, 4), dictionary.matrix[:, 0])
    with pytest.warns(DuplicateAtomsWarning, match="columns 0 and 1"):
        result = solve(method, dictionary, Y)
    assert np.isfinite(result.coef).all()
    assert (result.residual < 1e-2).all()


def test_rank_deficient_dictionary(method):
    if method == "aiht":
        pytest.skip("a clustered dictionary has full rank")
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((10, 6)) @ rng.standard_normal((6, 20))
    Phi /= np.linalg.norm(Phi, axis=0)
    X, Y = ms.signals.sample(Phi, 20, sparsity=1, rng=1)
    if method in POSITIVE:
        X, Y = np.abs(X), np.abs(X) @ Phi.T
    for precondition in (False, True):
        result = solve(method, Phi, Y, precondition=precondition)
        assert np.isfinite(result.coef).all()
        assert ms.metrics.strict_accuracy(X, result.scores) > 0.7


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (6, 4)])
def test_odd_shapes(method, shape):
    if method == "aiht":
        pytest.skip("a clustered dictionary needs clusters")
    Phi = ms.dictionaries.gaussian(*shape, rng=0)
    Y = 0.5 * Phi.T[:1]
    result = solve(method, Phi, Y, sparsity=1)
    assert result.residual[0] < 1e-3
    assert result.support.sum() == 1


def test_own_preconditioner(method, problem):
    if method == "aiht":
        pytest.skip("its preconditioner belongs to [U, A]")
    Phi, _, Y = problem
    pair = ms.theory.precondition(Phi)
    np.testing.assert_array_equal(
        solve(method, Phi, Y, precondition=pair).coef, solve(method, Phi, Y, precondition=True).coef
    )
    for bad, message in (
        ((np.eye(3), pair[1]), "W of precondition must have n = 10 columns"),
        ((pair[0], pair[1][:3]), "D of precondition must be 24 finite, nonzero numbers"),
        ("yes", "precondition must be True, False or a pair"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(method, Phi, Y, precondition=bad)


@pytest.mark.parametrize("method", WATCHABLE)
def test_watching_changes_nothing(method, problem):
    Phi, _, Y = problem
    seen = []
    watched = solve(method, Phi, Y, precondition=True, callback=lambda t, X: seen.append((t, X)))
    unwatched = solve(method, Phi, Y, precondition=True)
    np.testing.assert_array_equal(watched.coef, unwatched.coef)
    np.testing.assert_array_equal(watched.iterations, unwatched.iterations)
    assert [t for t, _ in seen] == list(range(1, len(seen) + 1))
    assert len(seen) == watched.iterations.max()  # no more calls once all signals are done
    np.testing.assert_array_equal(seen[-1][1], watched.coef)
    assert seen[0][1].shape == watched.coef.shape


@pytest.mark.parametrize("method", WATCHABLE)
def test_a_watcher_sees_all_signals_or_none(method, problem):
    Phi, _, Y = problem
    with pytest.raises(ValueError, match="callback= cannot be used here"):
        solve(method, Phi, Y * np.geomspace(0.1, 10, len(Y))[:, None], precondition=True, noise=0.01, callback=print)


@pytest.mark.parametrize("method", WATCHABLE)
def test_a_watcher_can_stop(method, problem):
    stopped = solve(method, *problem[::2], callback=lambda t, X: True)
    assert stopped.iterations.max() <= 1


@pytest.mark.parametrize("method", sorted(ITERATIVE))
def test_max_iter(method, problem):
    result = solve(method, *problem[::2], max_iter=1)
    assert result.iterations.max() <= (2 if method == "aiht" else 1)
    with pytest.raises(ValueError, match="max_iter must be at least 1"):
        solve(method, *problem[::2], max_iter=0)


def test_bad_options(method, problem):
    with pytest.raises(ValueError, match="n_threads must be from 1 to"):
        solve(method, *problem[::2], n_threads=1000)
    with pytest.raises(ValueError, match="tol must be"):
        solve(method, *problem[::2], tol=-1.0)
    with pytest.raises(ValueError, match="noise must be"):
        solve(method, *problem[::2], noise=-1.0)


def test_chunks_are_invisible(method, problem, monkeypatch):
    import maxsparse.solvers._contract as contract

    Phi, _, Y = problem
    whole = solve(method, Phi, Y)
    monkeypatch.setattr(contract, "CHUNK_BYTES", 24 * 8 * 5)
    np.testing.assert_array_equal(solve(method, Phi, Y, progress=True).coef, whole.coef)


def test_solve_by_name(problem):
    Phi, _, Y = problem
    np.testing.assert_array_equal(
        ms.solve(Phi, Y, method="omp", sparsity=2, precondition=True).coef,
        ms.solvers.omp(Phi, Y, sparsity=2, precondition=True).coef,
    )
    np.testing.assert_array_equal(ms.solve(Phi, Y).coef, ms.solvers.sbl(Phi, Y).coef)
    with pytest.raises(ValueError, match=r"there is no method 'magic'\. Available: omp, "):
        ms.solve(Phi, Y, method="magic")


def test_register(problem, registries):
    ms.solvers.register("mine", lambda Phi, Y, *, sparsity, precondition: ms.solvers.omp(Phi, Y, sparsity=sparsity))
    assert ms.solve(*problem[::2], method="mine", sparsity=1).coef.any()
    with pytest.raises(ValueError, match="already exists"):
        ms.solvers.register("omp", ms.solvers.sbl)


def test_clean_problems_are_silent(method, problem):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solve(method, *problem[::2])
    assert not caught


def test_the_last_dictionary_is_kept_but_never_an_old_one():
    """Φ changed in place, or of another dtype, is another Φ; a warning comes every time."""
    Phi = ms.dictionaries.gaussian(10, 24, rng=0)
    _, Y = ms.signals.sample(Phi, 5, sparsity=2, rng=1)
    first = ms.solvers.omp(Phi, Y, sparsity=2)
    np.testing.assert_array_equal(ms.solvers.omp(Phi.copy(), Y, sparsity=2).coef, first.coef)
    Phi[:, 0] *= 2
    changed = ms.solvers.omp(Phi, Y, sparsity=2)
    np.testing.assert_allclose(changed.residual, np.linalg.norm(Y - changed.coef @ Phi.T, axis=1), atol=1e-12)
    single = ms.solvers.omp(Phi.astype(np.float32), Y.astype(np.float32), sparsity=2)
    assert single.coef.dtype == np.float32
    assert ms.solvers.omp(Phi, Y.astype(np.float32), sparsity=2).coef.dtype == np.float64
    doubled = np.column_stack([Phi, Phi[:, :1]])
    for _ in range(2):
        with pytest.warns(DuplicateAtomsWarning):
            ms.solvers.omp(doubled, Y, sparsity=2)
