"""What all networks promise: names, scores, starts, no dependence on the batch."""

import numpy as np
import pytest
import torch

import maxsparse as ms
from maxsparse import networks, training

PHI = ms.dictionaries.decaying(12, 30, rng=0)
X, Y = ms.signals.sample(PHI, 150, sparsity=(1, 4), rng=1)
SMALL = {
    "residual": {"width": 24, "depth": 6},
    "residual, plain": {"width": 24, "depth": 6, "residual": False},
    "residual, helu": {"width": 24, "depth": 6, "activation": "helu"},
    "residual, estimate": {"width": 24, "depth": 6, "output": "estimate"},
    "residual, raw": {"width": 24, "depth": 6, "whiten": False},
    "ista_net": {"depth": 5},
    "ista_net, logits": {"depth": 5, "tied": False, "output": "logits"},
    "iht_net": {"depth": 5},
    "iht_net, whitened": {"depth": 5, "whiten": True},
    "lstm": {"hidden": 16},
    "lstm, feedback": {"hidden": 16, "feedback": True},
    "lstm, gru": {"hidden": 16, "cell": "gru"},
}


@pytest.fixture(params=SMALL)
def network(request):
    """A network that has seen some training, so that no statistic is at its start value."""
    label = request.param
    network = networks.build(label.split(",")[0], PHI, Y=Y, rng=0, **SMALL[label])
    loss = "softmax" if network.output == "logits" else "least_squares"
    task = training.SupportTask(PHI, sparsity=(1, 4), loss=loss, rng=0, validation_signals=10)
    training.train(network, task, training.PRESETS["modern"].but(batch_size=32, rounds=1), samples=640, n_threads=1)
    return network


def test_scores_match_the_training_graph(network):
    with torch.no_grad():
        outputs = network.eval()(torch.from_numpy(Y)).numpy()
    expected = np.abs(outputs) if network.output == "estimate" else outputs
    np.testing.assert_allclose(network.scores(Y), expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


@pytest.mark.parametrize("activation", ["relu", "helu"])
def test_scores_of_a_deep_network_match_the_training_graph(activation):
    network = networks.build("residual", PHI, Y=Y, width=100, activation=activation, rng=0)
    task = training.SupportTask(PHI, sparsity=(1, 4), rng=0, validation_signals=10)
    training.train(network, task, training.PRESETS["modern"].but(batch_size=64, rounds=1), samples=1280, n_threads=1)
    with torch.no_grad():
        expected = network(torch.from_numpy(Y)).numpy()
    np.testing.assert_allclose(network.scores(Y), expected, atol=1e-5 * np.abs(expected).max(), rtol=0)


def test_scores_do_not_depend_on_the_batch(network):
    whole = network.scores(Y)
    for batch_size in (1, 64, 100, 149):
        np.testing.assert_array_equal(network.scores(Y, batch_size=batch_size), whole)
    np.testing.assert_array_equal(network.scores(Y[37:38]), whole[37:38])
    np.testing.assert_array_equal(network.scores(Y[::-1]), whole[::-1])


def test_scores_take_any_array(network):
    whole = network.scores(Y)
    locked = Y.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(network.scores(locked), whole)
    np.testing.assert_array_equal(network.scores(np.asfortranarray(Y)), whole)
    np.testing.assert_array_equal(network.scores(Y.tolist()), whole)
    assert network.scores(Y[:0]).shape == (0, 30)
    assert whole.dtype == np.float32
    broken = Y.copy()
    broken[3, 2] = np.nan
    for bad, message in ((broken, "NaN at row 3, column 2"), (Y.T, "fits transposed"), (Y[:, :5], "must have n = 12")):
        with pytest.raises(ValueError, match=message):
            network.scores(bad)


def test_scores_leave_the_mode_alone_and_follow_the_weights(network):
    before = network.scores(Y)
    network.train()
    network.scores(Y)
    assert network.training
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.1)
    assert np.abs(network.scores(Y) - before).max() > 1e-6


# One row: all atoms are parallel.
@pytest.mark.filterwarnings("ignore::maxsparse._core.validation.DuplicateAtomsWarning")
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 2), (12, 5), (17, 33), (20, 100)])
@pytest.mark.parametrize("label", SMALL)
def test_any_shape_is_scored_trained_saved_and_loaded(tmp_path, label, shape):
    Phi = ms.dictionaries.gaussian(*shape, rng=0)
    Y = ms.signals.sample(Phi, 5, sparsity=1, rng=1)[1]
    network, path = networks.build(label.split(",")[0], Phi, rng=0, **SMALL[label]), tmp_path / "m.safetensors"
    assert np.isfinite(network.scores(Y)).all()
    loss = "softmax" if network.output == "logits" else "least_squares"
    task = training.SupportTask(Phi, sparsity=1, loss=loss, rng=0, validation_signals=10)
    settings = training.PRESETS["modern"].but(batch_size=32, rounds=2)
    report = training.train(network, task, settings, samples=128, output=path, n_threads=1)
    assert (report.batches, report.skipped) == (4, 0)
    with torch.no_grad():
        outputs = network(torch.from_numpy(Y)).numpy()
    assert outputs.shape == (5, shape[1])
    expected = np.abs(outputs) if network.output == "estimate" else outputs
    scores = network.scores(Y)
    np.testing.assert_allclose(scores, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)
    np.testing.assert_array_equal(networks.load(path).network.scores(Y), scores)


def test_a_seed_gives_the_same_start():
    first, second, third = (networks.build("residual", PHI, width=8, depth=4, rng=seed).scores(Y) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()
    state = torch.get_rng_state()
    networks.build("residual", PHI, width=8, depth=4, rng=1)
    assert torch.equal(state, torch.get_rng_state())


def test_residual_layers_and_he_start():
    network = networks.create("residual", n=20, m=100)
    assert len(network.layers) + 1 == 20
    for layer in network.layers[1:]:
        assert layer.weight.std().item() == pytest.approx(np.sqrt(2 / 400), rel=0.02)


@pytest.mark.parametrize("residual", [True, False])
def test_residual_network_by_hand(residual):
    network = networks.build("residual", PHI, Y=Y, width=7, depth=6, residual=residual, rng=0)
    with torch.no_grad():
        for norm in network.norms:
            for tensor in (norm.weight, norm.running_var):
                tensor.uniform_(0.5, 2.0)
            for tensor in (norm.bias, norm.running_mean):
                tensor.normal_()
    state = {key: value.double().numpy() for key, value in network.state_dict().items()}

    def layer(t, h):
        h = h @ state[f"layers.{t}.weight"].T - state[f"norms.{t}.running_mean"]
        h = h / np.sqrt(state[f"norms.{t}.running_var"] + 1e-5)
        return h * state[f"norms.{t}.weight"] + state[f"norms.{t}.bias"]

    W, _ = ms.theory.precondition(PHI)
    h = np.maximum(layer(0, state["scale"] * Y @ W.T), 0)
    for t in (1, 3):
        h = np.maximum(layer(t + 1, np.maximum(layer(t, h), 0)) + (h if residual else 0), 0)
    expected = h @ state["last.weight"].T + state["last.bias"]
    np.testing.assert_allclose(network.scores(Y), expected, atol=1e-5 * np.abs(expected).max())


def test_ablations_change_the_function():
    scores = {
        label: networks.build("residual", PHI, width=24, depth=6, rng=0, **options).scores(Y)
        for label, options in {"all": {}, "plain": {"residual": False}, "helu": {"activation": "helu"}}.items()
    }
    assert (scores["all"] != scores["plain"]).any()
    assert (scores["all"] != scores["helu"]).any()


def test_whitening_and_scale_of_inputs():
    network = networks.build("residual", PHI, Y=Y, width=8, depth=2, rng=0)
    inputs = network.prepare(torch.from_numpy(Y)).numpy()
    assert np.mean(inputs**2) == pytest.approx(1.0, rel=1e-4)
    many = ms.signals.sample(PHI, 20_000, sparsity=3, rng=3)[1]
    covariance = np.cov(network.prepare(torch.from_numpy(many)).numpy().T)
    assert np.linalg.cond(covariance) < 1.2 < 100 < np.linalg.cond(np.cov(many.T))


def test_a_dictionary_of_low_rank():
    Phi = ms.dictionaries.gaussian(3, 20, rng=0)
    Phi = np.vstack([Phi, Phi[0] + Phi[1]])
    assert np.isfinite(networks.build("residual", Phi, width=8, depth=2).scores(np.ones((2, 4)))).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "nonsense"}, "there is no network 'nonsense'. Available: learned_sbl, residual"),
        ({"depth": 5}, "depth must be even"),
        ({"width": 0}, "width must be from 1"),
        ({"residual": "False"}, "residual must be True or False, got 'False'"),
        ({"activation": "tanh"}, "activation must be one of"),
        ({"colour": 1}, "'residual' has no option 'colour'. Its options are: depth, width, residual, "),
        ({"n": 3}, "no option 'n'. Its options are: depth, width"),
        ({"output": "x"}, "output must be one of"),
        ({"name": "lstm", "cell": "rnn"}, "cell must be one of"),
        ({"name": "iht_net", "sigma": 0.0}, "sigma must be from"),
        ({"name": "ista_net", "theta": 0.0}, "theta must be at least"),
    ],
)
def test_bad_hyperparameters(options, message):
    name = options.pop("name", "residual")
    with pytest.raises(ValueError, match=message):
        networks.build(name, PHI, **options)


@pytest.mark.parametrize("where", ["respond", "inference"])
def test_an_error_while_scoring_leaves_a_network_in_training(monkeypatch, where):
    network = networks.build("ista_net", PHI, depth=2, rng=0).train()

    def failing(*_):
        raise RuntimeError("no memory")

    monkeypatch.setattr(network, where, failing)
    with pytest.raises(RuntimeError, match="no memory"):
        network.scores(np.ones((2, PHI.shape[0])))
    assert network.training


def test_register(registries):
    class Mine(networks.Network):
        def __init__(self, *, size):
            super().__init__(size=size)

    with pytest.raises(ValueError, match="already exists"):
        networks.register("residual", Mine)
    networks.register("mine", Mine)
    assert networks.create("mine", size=3).hyperparameters == {"size": 3}
    assert Mine.name == "mine"
    with pytest.raises(ValueError, match="'mine' is not for one dictionary; use create"):
        networks.build("mine", PHI)
    with pytest.raises(ValueError, match=r"'mine' has no option 'n'\. Its options are: size"):
        networks.create("mine", n=3)
    with pytest.raises(ValueError, match="missing 1 required keyword-only argument: 'size'"):
        networks.create("mine")
