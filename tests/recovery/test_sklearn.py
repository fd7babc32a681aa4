"""SparseRecoverer as a citizen of scikit-learn: its own checks, pipelines, searches."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxsparse as ms


class AnyWidth(ms.SparseRecoverer):
    """A recoverer whose dictionary has as many rows as the data has columns.

    scikit-learn's checks choose the width of their data themselves, from 1 to dozens of columns. A recoverer's width is
    that of its dictionary, which comes first; here, and only here, the dictionary follows.
    """

    def __init__(self, Phi=None, *, budget="none", noise=0.0):
        super().__init__(Phi, budget=budget, noise=noise)

    def _signals(self, Y, *, reset=False):
        if reset:
            array = Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
            self.width_ = array.shape[1] if array.ndim == 2 else 3
        elif not hasattr(self, "width_"):
            self.width_ = np.shape(Y)[1] if np.ndim(Y) == 2 else 3
        return super()._signals(Y, reset=reset)

    def _dictionary(self):
        n = getattr(self, "width_", 3)
        return ms.dictionaries.gaussian(n, 2 * n + 1, rng=0)

    @property
    def _n_features_out(self):
        return self._dictionary().shape[1]


# Of scikit-learn's own estimators none takes complex numbers; here they are data like any other.
@parametrize_with_checks(
    [AnyWidth()], expected_failed_checks=lambda _: {"check_complex_data": "complex signals are recovered"}
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.gaussian(12, 24, rng=0)


def test_grid_search_over_a_pipeline_finds_the_noise(Phi):
    X, Y = ms.signals.sample(Phi, 60, sparsity=2, noise=0.02, rng=1)
    steps = [("volts", FunctionTransformer(lambda Y: Y / 10.0)), ("recover", ms.SparseRecoverer(Phi))]
    search = GridSearchCV(Pipeline(steps), {"recover__noise": [1e-4, 0.02, 1.0]}, scoring=supports_right, cv=2)
    search.fit(10.0 * Y, X)
    assert search.best_params_ == {"recover__noise": 0.02}
    assert search.best_estimator_.transform(10.0 * Y).shape == (60, 24)
    assert search.best_score_ > 0.5


def supports_right(model, Y, X):
    return np.mean(((model.transform(Y) != 0) == (X != 0)).all(axis=1))


def test_score_needs_no_truth(Phi):
    _, Y = ms.signals.sample(Phi, 50, sparsity=2, noise=0.01, rng=1)
    noisy = ms.SparseRecoverer(Phi, noise=0.01)
    assert noisy.score(Y) == noisy.recover(Y).confidence.mean() > 0.5
    exact = ms.SparseRecoverer(Phi, noise=0, budget="none")
    assert exact.score(Y) == exact.recover(Y).certified.mean() < 0.1


def test_parameters_of_training_reach_it_through_a_pipeline(Phi):
    _, Y = ms.signals.sample(Phi, 20, sparsity=2, rng=1)
    pipeline = Pipeline([("recover", ms.SparseRecoverer(Phi, network="residual", n_threads=1, budget="none"))])
    small = {"width": 16, "depth": 4}
    pipeline.fit(Y, recover__samples=1000, recover__hyperparameters=small)
    assert pipeline.transform(Y).shape == (20, 24)
    assert not hasattr(clone(pipeline)["recover"], "trained_")


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    Phi = ms.dictionaries.gaussian(3, 5, rng=0)
    frame = pandas.DataFrame(np.eye(3), columns=["a", "b", "c"])
    model = ms.SparseRecoverer(Phi, budget="none").fit(frame).set_output(transform="pandas")
    assert list(model.transform(frame).columns) == [f"sparserecoverer{j}" for j in range(5)]
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["b", "a", "c"]])
