import numpy as np
import pytest
import torch

from maxsparse import dictionaries
from maxsparse.networks.learned_sbl import Shape
from maxsparse.training import learned_sbl as training

SMALL = Shape(iterations=4, state=2, hidden=6)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(training, "ATOMS_PER_BATCH", 400)


@pytest.mark.parametrize("kind", training.KINDS)
def test_every_kind_gives_a_usable_dictionary(kind):
    for seed in range(5):
        Phi = training.KINDS[kind][1](np.random.default_rng(seed), 12, 30)
        assert Phi.shape[0] == 12
        assert np.isfinite(Phi).all()
        assert np.linalg.matrix_rank(Phi) >= 11


def test_a_batch_is_a_function_of_seed_and_number():
    a, b, c = training.draw_batch(0, 5), training.draw_batch(0, 5), training.draw_batch(0, 6)
    assert torch.equal(a.Z, b.Z)
    assert a.Z.shape != c.Z.shape or not torch.equal(a.Z, c.Z)
    Phi = dictionaries.gaussian(8, 20, rng=0)
    batch = training.draw_batch(0, 1, Phi, noisy_share=1.0)
    assert batch.noise is not None
    assert batch.target.shape[1] == 20


def test_training_lowers_the_loss():
    Phi = dictionaries.decaying(8, 20, rng=0)
    trainer = training.Trainer(SMALL, 0, 1e-2)
    losses = [trainer.step(training.draw_batch(0, i, Phi, 0.0), 1.0) for i in range(30)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_a_resumed_run_is_the_undisturbed_one(tmp_path):
    Phi = dictionaries.decaying(8, 20, rng=0)

    def run(trainer, first, last):
        for number in range(first, last):
            trainer.step(training.draw_batch(0, number, Phi), 1.0)

    whole = training.Trainer(SMALL, 0, 1e-2)
    run(whole, 0, 4)
    half = training.Trainer(SMALL, 0, 1e-2)
    run(half, 0, 2)
    half.save(tmp_path / "run.checkpoint")
    rest = training.Trainer(SMALL, 1, 1e-2)
    rest.load(tmp_path / "run.checkpoint")
    run(rest, rest.step_number, 4)
    for a, b in zip(whole.mean.parameters(), rest.mean.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    with pytest.raises(ValueError, match="shape"):
        training.Trainer(Shape(), 0, 1e-2).load(tmp_path / "run.checkpoint")
