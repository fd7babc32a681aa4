"""Later passes: what they learn from, where they start, and what they add to a recoverer."""

import numpy as np
import pytest
import torch

import maxsparse as ms
from maxsparse import dictionaries, signals
from maxsparse._core.prepared import Prepared
from maxsparse.learned_sbl import LearnedScores, bundled_later, bundled_weights, read_weights, tasks
from maxsparse.learned_sbl import train as learned
from maxsparse.learned_sbl.model import LearnedSBL
from maxsparse.learned_sbl.spec import as_arrays
from maxsparse.learned_sbl.tasks import OpenSignalsTask
from maxsparse.learned_sbl.train import widen
from maxsparse.training import train

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(tasks, "ATOMS_PER_BATCH", 400)


@pytest.mark.parametrize("passes", [1, 2])
def test_only_signals_that_all_passes_miss_are_learned_from(passes):
    before = (bundled_weights(), *bundled_later())[:passes]
    task = OpenSignalsTask(before, rng=0)
    for number in range(3):
        inputs, support = task.batch(number, 256, slice(0, 256), CPU)
        n = inputs.dictionary.Q.shape[0]
        assert len(support) == len(inputs.Z) == len(inputs.earlier) >= 16
        best = np.argsort(-inputs.earlier.numpy(), axis=1, kind="stable")[:, :n]
        inside = np.take_along_axis(support.numpy(), best, axis=1).sum(axis=1)
        assert (inside < support.numpy().sum(axis=1)).all()
        again, _ = OpenSignalsTask(before, rng=0).batch(number, 256, slice(0, 256), CPU)
        assert torch.equal(inputs.Z, again.Z)
        assert torch.equal(inputs.earlier, again.earlier)


def test_the_earlier_logits_are_those_of_the_first_pass():
    Phi = dictionaries.decaying(20, 100, rng=1)
    X, Y = signals.sample(Phi, 200, sparsity=9, rng=2)
    logits, rows = OpenSignalsTask([bundled_weights()]).open_rows(Phi, X, Y)
    np.testing.assert_array_equal(logits, LearnedScores(Phi)(Y))
    assert 50 < len(rows) < 190

    # and after two passes those of the second, where the first found nothing
    twice, still = OpenSignalsTask([bundled_weights(), bundled_later()[0]]).open_rows(Phi, X, Y)
    assert set(still) < set(rows)
    scores = LearnedScores(Phi, later=bundled_later())
    np.testing.assert_array_equal(twice[rows], scores.again(Y[rows], logits[rows], 0))
    found = np.setdiff1d(np.arange(200), rows)
    np.testing.assert_array_equal(twice[found], logits[found])


def test_a_widened_network_gives_the_same_answers(monkeypatch):
    monkeypatch.setattr(learned, "NEW_WEIGHTS", 0.0)
    weights = bundled_weights()
    small, large = LearnedSBL(), LearnedSBL(state=15, hidden=53, heads=2)
    small.load_state_dict({name: torch.from_numpy(array) for name, array in as_arrays(weights).items()})
    widen(large, weights)
    Phi = dictionaries.gaussian(10, 24, rng=2)
    dictionary = Prepared(Phi).form()
    _, Y = signals.sample(Phi, 8, sparsity=3, noise=0.02, rng=1)
    Z = torch.tensor(Y @ dictionary.back, dtype=torch.float32)
    with torch.no_grad():
        noise = torch.full((8,), 0.02)
        torch.testing.assert_close(
            large(dictionary, Z, noise)[-1], small(dictionary, Z, noise)[-1], rtol=1e-3, atol=1e-3
        )


def test_it_trains_in_the_common_loop(tmp_path):
    network = LearnedSBL(state=14, hidden=50, heads=1)
    widen(network, bundled_weights())
    task = OpenSignalsTask([bundled_weights()], validation_signals=5, rng=0)
    settings = learned.SETTINGS.but(rounds=2, batch_size=16)
    before = network.first.weight.clone()
    report = train(network, task, settings, samples=4 * 16, output=tmp_path / "second.safetensors", n_threads=1)
    assert report.finished
    assert len(report.history) == 2
    assert report.best["score"] == max(entry["score"] for entry in report.history) < 0
    assert not torch.equal(before, network.first.weight)
    np.testing.assert_array_equal(
        read_weights(tmp_path / "second.safetensors").first, network.first.weight.detach().numpy()
    )


def test_a_recoverer_finds_more_with_it_and_a_file_keeps_it(tmp_path):
    Phi = dictionaries.decaying(20, 100, rng=3)
    X, Y = signals.sample(Phi, 400, sparsity=8, rng=4)
    model = ms.SparseRecoverer(Phi, noise=0, budget="none")
    alone = ms.SparseRecoverer(Phi, noise=0, budget="none")
    alone.later_weights_ = ()
    with_it, without = (recoverer.recover(Y, easy_first=False) for recoverer in (model, alone))
    assert with_it.certified.mean() > without.certified.mean() + 0.05
    assert (with_it.support == (X != 0))[with_it.certified].all()
    # what the first pass finds stays as it is, to the last bit
    np.testing.assert_array_equal(with_it.coef[without.certified], without.coef[without.certified])
    np.testing.assert_array_equal(with_it.scores[without.certified], without.scores[without.certified])

    for number, kept in enumerate((model, alone)):
        path = tmp_path / f"{number}.safetensors"
        kept.save(path)
        np.testing.assert_array_equal(ms.load(path).recover(Y).coef, kept.recover(Y).coef)
    assert ms.load(tmp_path / "1.safetensors").later_weights_ == ()
