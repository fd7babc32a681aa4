"""Learned SBL on the common loop: its batches, its training from nothing, and tuning to one dictionary."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import typer

from maxsparse import SparseRecoverer, dictionaries, networks, training
from maxsparse.learned_sbl import bundled_weights, draw, read_weights, tasks, train
from maxsparse.learned_sbl.spec import as_arrays
from maxsparse.learned_sbl.tasks import DictionariesTask
from maxsparse.training import checkpoint_path, loop

SMALL = {"iterations": 4, "state": 2, "hidden": 6}
PHI = dictionaries.decaying(8, 20, rng=0)
QUICK = train.SETTINGS.but(rounds=4, learning_rate=1e-2)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(tasks, "ATOMS_PER_BATCH", 400)


def network():
    torch.manual_seed(0)
    return networks.create("learned_sbl", **SMALL)


@pytest.mark.parametrize("kind", draw.KINDS)
def test_every_kind_gives_a_usable_dictionary(kind):
    for seed in range(5):
        Phi = draw.KINDS[kind][1](np.random.default_rng(seed), 12, 30)
        assert Phi.shape[0] == 12
        assert np.isfinite(Phi).all()
        assert np.linalg.matrix_rank(Phi) >= 11


def test_a_batch_is_a_function_of_seed_and_number():
    whole = slice(0, 256)
    (a, first), (b, _), (c, _) = (DictionariesTask(rng=0).batch(number, 256, whole, CPU) for number in (5, 5, 6))
    assert torch.equal(a.Z, b.Z)
    assert a.Z.shape != c.Z.shape or not torch.equal(a.Z, c.Z)
    assert len(first) == tasks.signals_per_batch(first.shape[1])
    inputs, support = DictionariesTask(PHI, noisy_share=1.0, rng=0).batch(1, 256, whole, CPU)
    assert inputs.noise is not None
    assert support.shape == (32, 20)


@pytest.mark.parametrize("count", [2, 3])
def test_processes_share_a_batch(count):
    task, size = DictionariesTask(rng=0), 60
    inputs, support = task.batch(2, size, slice(0, size), CPU)
    part = size // count
    shares = [task.batch(2, size, slice(k * part, (k + 1) * part), CPU) for k in range(count)]
    own = [len(target) for _, target in shares]
    assert own == [len(support) // count] * count
    torch.testing.assert_close(torch.cat([target for _, target in shares]), support[: sum(own)])
    torch.testing.assert_close(torch.cat([given.Z for given, _ in shares]), inputs.Z[: sum(own)])


def test_more_processes_than_signals_are_refused():
    with pytest.raises(ValueError, match="a batch of 32 signals cannot be divided among 64 processes; start fewer"):
        DictionariesTask(PHI, rng=0).batch(0, 256, slice(0, 4), CPU)


def test_another_device_than_the_cpu_is_refused():
    with pytest.raises(ValueError, match=r"got 'cuda:0'; train with device=\"cpu\""):
        DictionariesTask(PHI, rng=0).batch(0, 256, slice(0, 256), torch.device("cuda", 0))


@pytest.mark.parametrize("noisy_share", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(20, 5), (1, 1), (5, 5), (2, 1)])
def test_tall_and_square_dictionaries_have_signals(shape, noisy_share):
    Phi = np.random.default_rng(0).standard_normal(shape)
    task = DictionariesTask(Phi, noisy_share=noisy_share, validation_signals=5, rng=0)
    sizes = torch.cat([task.batch(number, 32, slice(0, 32), CPU)[1].sum(axis=1) for number in range(5)])
    assert sizes.min() == 1
    assert sizes.max() <= max(1, shape[1] - (shape[0] > 1))  # not all atoms at once, where there is a choice
    with torch.no_grad():
        assert 0.0 <= task.validate(network())["score"] <= 1.0


@pytest.mark.parametrize("shape", [(20, 5), (1, 1)])
def test_tall_and_square_dictionaries_are_tuned_to(shape):
    model = SparseRecoverer(np.random.default_rng(0).standard_normal(shape)).fit(minutes=0.001)
    assert np.isfinite(model.weights_.first).all()


def test_training_lowers_the_loss_and_raises_the_accuracy(monkeypatch):
    made, task, losses = network(), DictionariesTask(PHI, noisy_share=0.0, rng=0), []
    with torch.no_grad():
        before = task.validate(made)
    step = training.run.Run.step

    def recording(self, *arguments):
        total = self.losses.item()
        step(self, *arguments)
        losses.append(self.losses.item() - total)

    monkeypatch.setattr(training.run.Run, "step", recording)
    report = training.train(made, task, QUICK.but(rounds=1), samples=40 * 256, device="cpu", n_threads=1)
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    assert report.best["score"] > before["score"]
    assert before["problems"] == ["given 8x20 d=2", "given 8x20 d=3"]


class Killed(BaseException):
    """Nothing catches it: the process is gone."""


@pytest.fixture
def problems(monkeypatch):
    """A validation that takes no time."""
    monkeypatch.setattr(DictionariesTask, "_problems", lambda self: [("small", PHI, [2])])


@pytest.mark.parametrize("deadline", [0, 5, 11])
def test_a_killed_command_goes_on_to_the_same_bits(tmp_path, monkeypatch, problems, deadline):
    sizes = {"steps": 12, "state": 2, "hidden": 6, "rate": 1e-2}
    train.main(tmp_path / "whole.safetensors", **sizes)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.1)  # checkpoints at odd moments too, not only after validations
    batch = DictionariesTask.batch

    def dying(self, number, *arguments):
        if number == deadline:
            raise Killed
        return batch(self, number, *arguments)

    output = tmp_path / "killed.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(DictionariesTask, "batch", dying)
        with pytest.raises(Killed):
            train.main(output, **sizes)
    assert checkpoint_path(output).exists()
    train.main(output, **sizes)
    assert not checkpoint_path(output).exists()
    assert output.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    model = networks.load(output)
    assert model.network.hyperparameters == {"iterations": 16, "state": 2, "hidden": 6}
    assert model.about["report"]["batches"] == 12
    # What the command writes can take the place of the bundled file.
    np.testing.assert_array_equal(read_weights(output).first, model.network.first.weight.detach().numpy())


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch, problems, capsys):
    output = tmp_path / "m.safetensors"

    def dying(*_):
        raise Killed

    monkeypatch.setattr(DictionariesTask, "batch", dying)
    with pytest.raises(Killed):
        train.main(output, steps=4, state=2, hidden=6)
    with pytest.raises(typer.Exit):
        train.main(output, steps=4, state=3, hidden=6)
    assert "belongs to another run: its hyperparameters" in capsys.readouterr().err


def test_a_run_for_one_dictionary_does_not_go_on_without_it(tmp_path, monkeypatch, problems):
    output = tmp_path / "m.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(DictionariesTask, "loss", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            training.train(network(), DictionariesTask(PHI, rng=0), QUICK, samples=256, output=output, device="cpu")
    with pytest.raises(ValueError, match="another run: its arrays are Phi, not nothing"):
        training.train(network(), DictionariesTask(rng=0), QUICK, samples=256, output=output, resume=True, device="cpu")


def test_a_finished_model_and_a_missing_folder_are_named(tmp_path, problems, capsys):
    output = tmp_path / "m.safetensors"
    train.main(output, steps=1, state=2, hidden=6)
    content = output.read_bytes()
    with pytest.raises(typer.Exit):
        train.main(output, steps=2, state=2, hidden=6)
    assert "m.safetensors' is finished; remove it to train again" in capsys.readouterr().err
    assert output.read_bytes() == content
    with pytest.raises(typer.Exit):
        train.main(tmp_path / "nowhere" / "m.safetensors", steps=1)
    assert "nowhere' does not exist; create it first" in capsys.readouterr().err


def test_it_is_not_trained_for_one_dictionary_by_fit():
    with pytest.raises(ValueError, match="'learned_sbl' is not for one dictionary"):
        training.fit(PHI, "learned_sbl", samples=100)


def tune(**options):
    weights = as_arrays(bundled_weights())
    return weights, train.tune(PHI, weights, **options)


def test_tuning_gives_the_average_and_leaves_the_threads_alone(monkeypatch):
    threads, averages = torch.get_num_threads(), []
    step = training.run.Run.step

    def recording(self, *arguments):
        assert torch.get_num_threads() == 1
        step(self, *arguments)
        averages.append(self.average.module.first.weight.detach().clone())

    monkeypatch.setattr(training.run.Run, "step", recording)
    state = torch.get_rng_state()
    before, after = tune(minutes=0.01)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(after["first.weight"], averages[-1].numpy())
    assert {name: value.shape for name, value in after.items()} == {name: a.shape for name, a in before.items()}
    assert not np.array_equal(before["first.weight"], after["first.weight"])


def test_interrupted_tuning_gives_the_average_so_far(monkeypatch):
    averages = []
    step = training.run.Run.step

    def interrupted(self, *arguments):
        step(self, *arguments)
        averages.append(self.average.module.first.weight.detach().clone())
        if self.report.batches == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(training.run.Run, "step", interrupted)
    with pytest.raises(train.InterruptedTuning, match="of 5 minutes") as stop:
        tune(minutes=5)
    np.testing.assert_array_equal(stop.value.weights["first.weight"], averages[-1].numpy())


def test_two_processes_train_it(tmp_path):
    output, code = tmp_path / "m.safetensors", tmp_path / "run.py"
    code.write_text(
        "from pathlib import Path\n"
        "from maxsparse.learned_sbl import tasks, train\n"
        "from maxsparse import dictionaries\n"
        "Phi = dictionaries.decaying(8, 20, rng=0)\n"
        "tasks.DictionariesTask._problems = lambda self: [('small', Phi, [2])]\n"
        "tasks.ATOMS_PER_BATCH = 400\n"
        f"train.main(Path({str(output)!r}), steps=6, state=2, hidden=6)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(code)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("m.safetensors: 6 batches") == 1  # the first process alone speaks
    assert networks.load(output).about["report"]["batches"] == 6
