"""Signals for training: any part of any batch, at any time, with the same bits."""

import numpy as np
import pytest
import torch

import maxsparse as ms
from maxsparse.training import SupportTask

PHI = ms.dictionaries.gaussian(8, 20, rng=0)
CPU = torch.device("cpu")


def batch(task, number, size, start=0, stop=None):
    return task.batch(number, size, slice(start, size if stop is None else stop), CPU)


@pytest.mark.parametrize("set_size", [None, 700])
def test_rows_of_a_batch_do_not_depend_on_who_makes_them(set_size):
    Y, X = batch(SupportTask(PHI, sparsity=(1, 4), rng=5, set_size=set_size), 3, 900)
    other = SupportTask(PHI, sparsity=(1, 4), rng=5, set_size=set_size)
    for start, stop in ((600, 900), (0, 300), (300, 600)):  # in another order, too
        Y_part, X_part = batch(other, 3, 900, start, stop)
        assert torch.equal(Y_part, Y[start:stop])
        assert torch.equal(X_part, X[start:stop])


def test_signals_are_those_of_the_dictionary():
    Y, X = batch(SupportTask(PHI, sparsity=(1, 4), rng=5), 0, 5000)
    assert Y.dtype == X.dtype == torch.float32
    np.testing.assert_allclose(Y, X.numpy() @ PHI.T, atol=1e-6)
    counts = np.bincount((X != 0).sum(1), minlength=5)[1:5]
    assert counts.sum() == 5000
    assert (np.abs(counts - 1250) < 5 * np.sqrt(1250)).all()
    assert len(torch.unique(Y, dim=0)) == 5000


def test_seeds_and_batches_differ():
    first = batch(SupportTask(PHI, rng=1), 0, 64)[0]
    assert not torch.equal(first, batch(SupportTask(PHI, rng=2), 0, 64)[0])
    assert not torch.equal(first, batch(SupportTask(PHI, rng=1), 1, 64)[0])


def test_noise_and_amplitudes_reach_the_signals():
    Y, X = batch(SupportTask(PHI, sparsity=3, amplitudes="unit", noise=0.1, rng=0), 0, 3000)
    assert set(X[X != 0].tolist()) == {-1.0, 1.0}
    assert np.std(Y.numpy() - X.numpy() @ PHI.T) == pytest.approx(0.1, rel=0.05)
    Y, X = batch(SupportTask(PHI, sparsity=3, snr_db=20, rng=0), 0, 3000)
    clean = X.numpy() @ PHI.T
    ratio = np.linalg.norm(Y.numpy() - clean, axis=1) / np.linalg.norm(clean, axis=1)
    assert np.sqrt(np.mean(ratio**2)) == pytest.approx(0.1, rel=0.05)


def test_a_fixed_set_is_walked_through_once_per_epoch_in_new_orders():
    size = 2500
    task = SupportTask(PHI, sparsity=3, rng=0, set_size=size)
    fresh, _ = SupportTask(PHI, sparsity=3, rng=0).signals(0, size)
    walk = torch.cat([batch(task, number, 500)[0] for number in range(10)]).numpy()
    first, second = walk[:size], walk[size:]
    order = [np.lexsort(part.T) for part in (first, second, fresh)]
    np.testing.assert_array_equal(first[order[0]], fresh[order[2]])
    np.testing.assert_array_equal(second[order[1]], fresh[order[2]])
    assert (first != second).any()
    Y, X = batch(task, 4, 1000)  # spans two epochs
    np.testing.assert_allclose(Y, X.numpy() @ PHI.T, atol=1e-6)


class Oracle(ms.networks.SignalNetwork):
    """Knows the validation signals by heart, except those with three nonzeros."""

    def __init__(self, answers):
        super().__init__(n=8, m=20, whiten=False, output="estimate")
        self.answers = answers

    def scores(self, Y, **options):
        X = self.answers[Y.tobytes()]
        return np.where((X != 0).sum(1, keepdims=True) == 3, -np.abs(X), np.abs(X))


def test_validation_measures_each_sparsity():
    task = SupportTask(PHI, sparsity=(2, 4), rng=0, validation_signals=30)
    answers = {Y.tobytes(): X for X, Y in (task._validation_set(d) for d in (2, 3, 4))}
    found = task.validate(Oracle(answers))
    assert found["d"] == [2, 3, 4]
    assert found["strict"] == [1.0, 0.0, 1.0]
    assert found["loose"] == [1.0, 0.0, 1.0]
    assert found["score"] == pytest.approx(2 / 3)


def test_validation_signals_are_not_trained_on():
    task = SupportTask(PHI, sparsity=2, rng=0, validation_signals=500)
    trained = {row.tobytes() for row in task.signals(0, 20_000)[0]}
    assert not any(row.tobytes() in trained for row in task._validation_set(2)[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"sparsity": (3, 30)}, "sparsity"),
        ({"sparsity": "3"}, "sparsity"),
        ({"amplitudes": "cauchy"}, "amplitudes must be one of"),
        ({"noise": -1.0}, "noise"),
        ({"set_size": 0}, "set_size"),
    ],
)
def test_bad_arguments_are_named_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        SupportTask(PHI, **options)


def test_the_loss_and_the_network_must_fit():
    task = SupportTask(PHI, loss="least_squares")
    with pytest.raises(ValueError, match="needs a network with output='estimate'"):
        task.loss(ms.networks.build("residual", PHI, width=4, depth=2), *batch(task, 0, 4))


def test_numbers_of_numpy_are_numbers(tmp_path):
    options = {"sparsity": np.int64(2), "noise": np.float32(0.1), "hyperparameters": {"width": np.int64(8), "depth": 2}}
    output = tmp_path / "m.safetensors"
    network, _ = ms.training.fit(PHI, rng=np.int64(3), samples=300, n_threads=1, output=output, **options)
    assert ms.networks.load(output).about["task"]["rng"] == 3
    assert ms.networks.load(output).network.hyperparameters == network.hyperparameters


def test_a_fixed_set_is_made_when_it_is_needed_and_may_not_be_endless():
    task = SupportTask(PHI, sparsity=1, rng=0, set_size=10**8)  # 3.2 GB, had they been made
    assert "_set" not in vars(task)
    with pytest.raises(ValueError, match="set_size must be from 1 to 268435456, got 1000000000000"):
        SupportTask(PHI, sparsity=1, rng=0, set_size=10**12)
