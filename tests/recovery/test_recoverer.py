import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import maxsparse as ms
from maxsparse.learned_sbl import LearnedScores, bundled_later
from maxsparse.recovery import pipeline


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.decaying(16, 60, rng=11)


@pytest.fixture(scope="module")
def batch(Phi):
    return ms.signals.sample(Phi, 300, sparsity=(1, 8), rng=1)


class Oracle:
    """A network that knows the answers."""

    def __init__(self, X):
        self.X = X

    def scores(self, Y):
        return 10.0 * (self.X != 0) - 5.0


def test_recovers_and_certifies_with_no_training(Phi, batch):
    X, Y = batch
    result = ms.SparseRecoverer(Phi).recover(Y)
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.97
    assert not (result.certified & ~right).any()
    assert (result.certified == (result.argument != "")).all()
    assert result.certified[right].all()
    np.testing.assert_allclose(result.coef[right], X[right], atol=1e-7)
    np.testing.assert_allclose(result.residual, np.linalg.norm(Y - result.coef @ Phi.T, axis=1), atol=1e-12)
    np.testing.assert_array_equal(result.confidence, result.certified)


def test_beats_whitened_sbl_on_a_dictionary_it_never_saw(Phi):
    X, Y = ms.signals.sample(Phi, 300, sparsity=5, rng=2)
    ours = ms.metrics.strict_accuracy(X, ms.SparseRecoverer(Phi, budget="none").recover(Y).scores)
    sbl = ms.metrics.strict_accuracy(X, ms.solve(Phi, Y, method="sbl", update="convex", precondition=True).scores)
    assert ours > sbl


@pytest.mark.parametrize("budget", ["none", 300])
def test_answers_depend_on_nothing_but_signal_and_seed(Phi, batch, budget):
    _, Y = batch
    model = ms.SparseRecoverer(Phi, budget=budget, random_state=4)
    whole = model.recover(Y)
    part = model.recover(Y[40:47])
    single_thread = clone(model).set_params(n_threads=1).recover(Y)
    for name in ("coef", "scores", "certified", "iterations", "residual"):
        np.testing.assert_array_equal(getattr(whole, name)[40:47], getattr(part, name))
        np.testing.assert_array_equal(getattr(whole, name), getattr(single_thread, name))


def test_small_chunks_change_nothing(Phi, batch, monkeypatch):
    from maxsparse.recovery import recoverer

    _, Y = batch
    model = ms.SparseRecoverer(Phi, budget=300)
    whole = model.recover(Y)
    monkeypatch.setattr(recoverer, "CHUNK_BYTES", 8 * 60 * 37)
    np.testing.assert_array_equal(model.recover(Y).coef, whole.coef)


def test_awkward_inputs(Phi):
    _, Y = ms.signals.sample(Phi, 4, sparsity=2, rng=0)
    model = ms.SparseRecoverer(Phi, budget="fast")
    expected = model.recover(Y).coef
    Y.setflags(write=False)
    np.testing.assert_array_equal(model.recover(Y).coef, expected)
    np.testing.assert_array_equal(model.recover(np.asfortranarray(Y)).coef, expected)
    np.testing.assert_array_equal(model.recover(np.repeat(Y, 2, axis=0)[::2]).coef, expected)
    assert model.recover(Y[:0]).coef.shape == (0, 60)
    zero = model.recover(np.zeros((1, 16)))
    assert zero.certified.all()
    assert not zero.coef.any()
    with pytest.raises(ValueError, match=r"pass Y\.T"):
        model.recover(np.zeros((16, 3)))
    with pytest.raises(ValueError, match="NaN"):
        model.recover(np.full((1, 16), np.nan))


def test_float32_is_respected_and_judged_by_its_own_roundings(Phi):
    gaussian = ms.dictionaries.gaussian(20, 60, rng=0).astype(np.float32)
    X, Y = ms.signals.sample(gaussian, 50, sparsity=3, rng=1)
    result = ms.SparseRecoverer(gaussian, budget="fast").recover(Y)
    assert result.coef.dtype == np.float32
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.9
    assert result.certified.mean() > 0.5
    assert not (result.certified & ~right).any()


def test_what_nobody_can_explain_is_not_certified(Phi):
    Y = np.random.default_rng(0).standard_normal((20, 16))
    result = ms.SparseRecoverer(Phi, noise=0, budget=300).recover(Y)
    assert not result.certified.any()
    assert not result.converged.any()
    assert (result.iterations == 300).all()
    assert np.isfinite(result.coef).all()


def test_with_noise_nothing_is_certified_but_right_answers_have_confidence():
    gaussian = ms.dictionaries.gaussian(30, 60, rng=0)
    X, Y = ms.signals.sample(gaussian, 200, sparsity=3, noise=0.01, rng=1)
    result = ms.SparseRecoverer(gaussian, noise=0.01).recover(Y)
    assert not result.certified.any()
    assert set(result.argument) == {""}
    right = (result.support == (X != 0)).all(axis=1)
    assert right.mean() > 0.95
    assert result.confidence[right].mean() > 0.8
    assert np.median(ms.metrics.normalised_error(X, result.coef)) < 0.1


def test_wrong_answers_have_less_confidence():
    gaussian = ms.dictionaries.gaussian(30, 60, rng=0)
    X, Y = ms.signals.sample(gaussian, 200, sparsity=4, noise=0.03, rng=1)
    result = ms.SparseRecoverer(gaussian, noise=0.03).recover(Y)
    right = (result.support == (X != 0)).all(axis=1)
    assert 0.1 < right.mean() < 0.9
    assert result.confidence[~right].mean() < min(0.8, result.confidence[right].mean() - 0.1)


def test_conventions_of_scikit_learn(Phi, batch):
    X, Y = batch
    model = ms.SparseRecoverer(Phi, budget="fast", random_state=3)
    known = {"Phi", "network", "noise", "positive", "groups", "budget", "rtol", "random_state", "names", "n_threads"}
    assert set(model.get_params()) == known
    copy = clone(model)
    assert copy.budget == "fast"
    assert model.fit(Y) is model
    assert model.n_features_in_ == 16
    np.testing.assert_array_equal(copy.fit_transform(Y), model.transform(Y))
    pipeline = make_pipeline(FunctionTransformer(lambda Y: 2 * Y), ms.SparseRecoverer(Phi, budget="fast"))
    halved = pipeline.fit(Y).transform(Y / 2)
    assert ms.metrics.exact_recovery(X, halved) > 0.9


def test_a_network_of_your_own_can_score(Phi, batch):
    X, Y = batch
    result = ms.SparseRecoverer(Phi, network=Oracle(X), budget="none").recover(Y, easy_first=False)
    assert result.certified.all()
    assert result.method == "Oracle"
    for bad, message in (("nonsense", "there is no network 'nonsense'"), (3, "network must be")):
        with pytest.raises(ValueError, match=message):
            ms.SparseRecoverer(Phi, network=bad).recover(Y)


def test_tuning_lowers_the_loss_and_is_saved(tmp_path):
    pytest.importorskip("torch")
    small = ms.dictionaries.decaying(8, 20, rng=5)
    model = ms.SparseRecoverer(small, budget="none").fit(minutes=0.05)
    X, Y = ms.signals.sample(small, 200, sparsity=3, rng=1)
    before, after = ms.SparseRecoverer(small, budget="none").recover(Y), model.recover(Y)
    assert (before.scores != after.scores).any()
    assert ms.metrics.strict_accuracy(X, after.scores) > ms.metrics.strict_accuracy(X, before.scores) - 0.1
    model.save(tmp_path / "tuned.safetensors")
    np.testing.assert_array_equal(ms.load(tmp_path / "tuned.safetensors").recover(Y).scores, after.scores)
    with pytest.raises(ValueError, match="minutes"):
        model.fit(minutes=-1)


def test_saved_and_loaded_it_gives_the_same_bits(Phi, batch, tmp_path):
    _, Y = batch
    model = ms.SparseRecoverer(Phi, budget=500, random_state=9, n_threads=1)
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = ms.load(path)
    assert loaded.get_params()["budget"] == 500
    np.testing.assert_array_equal(model.recover(Y).coef, loaded.recover(Y).coef)
    with pytest.raises(ValueError, match="holds no code"):
        ms.SparseRecoverer(Phi, network=Oracle(Y)).save(path)


def test_scores_that_overflow_are_not_taken(Phi, batch):
    _, Y = batch
    model, alone = ms.SparseRecoverer(Phi, budget="none"), ms.SparseRecoverer(Phi, budget="none")
    huge = [w._replace(first=w.first * np.float32(1e19), last=w.last * np.float32(1e19)) for w in bundled_later()]
    model.later_weights_, alone.later_weights_ = tuple(huge), ()
    assert np.isfinite(model.recover(Y).scores).all()
    assert model.recover(Y).certified.sum() >= alone.recover(Y).certified.sum()


def test_hostile_files_are_refused(Phi, tmp_path):
    path = tmp_path / "model.safetensors"
    ms.SparseRecoverer(Phi).save(path)
    arrays = load_file(path)
    settings = {"noise": 0.0, "budget": "fast", "rtol": None, "random_state": 0, "n_threads": None}
    header = {"format": "maxsparse.recoverer", "version": 2, "maxsparse": "0", "settings": settings}

    def refused(match, arrays=arrays, header=header):
        save_file(arrays, path, {"maxsparse": json.dumps(header)})
        with pytest.raises(ValueError, match=match):
            ms.load(path)

    refused("header is damaged", header={"format": "other"})
    refused("header is damaged", header=[1])
    refused("version", header=header | {"version": 3})
    refused("settings", header=header | {"settings": {}})
    refused("settings", header=header | {"settings": settings | {"surprise": 1}})
    refused("budget", header=header | {"settings": settings | {"budget": [1]}})
    refused("random_state", header=header | {"settings": settings | {"random_state": True}})
    refused("lacks", arrays={key: value for key, value in arrays.items() if key != "W"})
    refused("lacks", arrays={key: value for key, value in arrays.items() if "moment" not in key})
    first = {key: value for key, value in arrays.items() if "later." not in key}
    later = {key: value for key, value in arrays.items() if "later.1." in key}
    refused("lacks a pass", arrays=first | later)
    refused("holds unknown weights", arrays=arrays | {"weights.second.moment": arrays["weights.moment"]})
    refused("pass 2.*lacks the weights moment", arrays={k: v for k, v in arrays.items() if "later.0.moment" not in k})
    refused("pass 3.*finite", arrays=arrays | {"weights.later.1.last.bias": np.full(22, np.nan, np.float32)})
    refused("log_lambda must be within", arrays=arrays | {"weights.later.0.log_lambda": np.full(16, 500, np.float32)})
    swapped = {key.replace("later.1.", ""): value for key, value in later.items()}
    refused("no heads", arrays=arrays | swapped)
    refused("preconditioner", arrays=arrays | {"D": np.full(60, np.nan)})
    refused("preconditioner", arrays=arrays | {"W": np.ones((3, 4))})
    refused("inf", arrays=arrays | {"Phi": np.full((16, 60), np.inf)})
    save_file(
        first, path, {"maxsparse": json.dumps(header | {"version": 1})}
    )  # as it was before there were later passes
    assert ms.load(path).later_weights_ == ()
    for data in (b"", b"nonsense" * 100, (2**60).to_bytes(8, "little") + b"{}"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="cannot read"):
            ms.load(path)
    with pytest.raises(FileNotFoundError):
        ms.load(tmp_path / "nothing.safetensors")


def test_repr_is_one_line_with_the_shape_of_the_dictionary(Phi):
    assert repr(ms.SparseRecoverer(Phi)) == "SparseRecoverer(Phi=<16×60>)"
    assert repr(ms.SparseRecoverer(Phi.tolist(), noise=0.1, budget="fast")) == (
        "SparseRecoverer(Phi=<16×60>, noise=0.1, budget='fast')"
    )
    assert repr(ms.SparseRecoverer(Phi, network=Oracle(None))) == "SparseRecoverer(Phi=<16×60>, network=<Oracle>)"


def test_a_single_signal_is_told_how_to_be_a_batch(Phi, batch):
    _, Y = batch
    for call in (ms.SparseRecoverer(Phi).recover, ms.SparseRecoverer(Phi).transform, ms.SparseRecoverer(Phi).fit):
        with pytest.raises(ValueError, match=r"^Y must be 2-D, got shape \(16,\); for a single row pass Y\[None, :\]"):
            call(Y[0])


def test_large_dictionaries_do_without_the_network_unless_told(monkeypatch):
    """Passes of the network would take seconds per signal; message passing and the search answer instead."""
    Phi = ms.dictionaries.gaussian(40, 400, rng=0)
    X, Y = ms.signals.sample(Phi, 10, sparsity=9, rng=1)
    monkeypatch.setattr(pipeline, "MOST_IN_TIME", 1000)
    monkeypatch.setattr(pipeline, "MOST_FOR_NETWORK", 1000)
    calls = []
    original = LearnedScores._run
    monkeypatch.setattr(LearnedScores, "_run", lambda self, *args: calls.append(1) or original(self, *args))
    for noise in (0, "auto"):
        result = ms.SparseRecoverer(Phi, noise=noise).recover(Y)
        assert not calls
        assert (result.support == (X != 0)).all(axis=1).mean() >= 0.8
    ms.SparseRecoverer(Phi, noise=0, budget="thorough").recover(Y)
    assert calls
    calls.clear()
    assert ms.SparseRecoverer(Phi).recover(Y).scores.shape == (10, 400)
    assert calls
