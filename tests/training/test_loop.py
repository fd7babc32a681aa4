"""The loop: it learns, keeps the best, and stops well, whatever stops it."""

import math
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import maxsparse as ms
from maxsparse import networks, training
from maxsparse.networks import storage
from maxsparse.training import PRESETS, Settings, checkpoint_path, loop
from maxsparse.training.checkpoint import read_checkpoint

PHI = ms.dictionaries.gaussian(8, 16, rng=0)
QUICK = PRESETS["modern"].but(batch_size=32, rounds=4)


def make(**options):
    task = training.SupportTask(PHI, sparsity=(1, 2), rng=0, validation_signals=20, **options)
    return networks.build("residual", PHI, width=16, depth=4, rng=0), task


@pytest.mark.parametrize(
    ("name", "loss", "size", "options"),
    [
        ("residual", "softmax", 48, {"width": 64, "depth": 6}),
        ("residual", "sigmoid", 48, {"width": 64, "depth": 6}),
        ("residual", "softmax", 48, {"width": 128, "depth": 6, "activation": "helu"}),  # gradients do not see its step
        ("lstm", "softmax", 48, {"hidden": 48, "steps": 4}),
        ("lstm", "sigmoid", 48, {"hidden": 48, "steps": 4, "cell": "gru", "feedback": True}),
        # Layers of 16 by 16 numbers hold fewer signals.
        ("ista_net", "softmax", 16, {"depth": 6, "tied": False, "output": "logits"}),
        ("ista_net", "least_squares", 16, {"depth": 6, "tied": False}),
        ("iht_net", "softmax", 16, {"depth": 6, "tied": False, "theta": 0.01, "output": "logits"}),
        ("iht_net", "least_squares", 16, {"depth": 6, "tied": False, "theta": 0.01}),
    ],
)
def test_a_tiny_set_is_learned_by_heart(name, loss, size, options):
    steps = 800 if (name, loss) == ("iht_net", "least_squares") else 400  # after 400 it still lacks a signal of the 16
    task = training.SupportTask(PHI, sparsity=(2, 4), rng=0, set_size=size, validation_signals=5, loss=loss)
    Y, X = task.signals(0, size)
    network = networks.build(name, PHI, Y=Y, rng=0, **options)
    assert ms.metrics.strict_accuracy(X, network.scores(Y)) < 0.9
    settings = PRESETS["modern"].but(batch_size=size, learning_rate=0.01, rounds=1, weight_decay=0.0)
    training.train(network, task, settings, samples=steps * size, n_threads=1)
    assert ms.metrics.strict_accuracy(X, network.scores(Y)) == 1.0


def test_least_squares_recovers_the_coefficients_of_a_tiny_set():
    task = training.SupportTask(PHI, sparsity=(1, 2), rng=0, set_size=32, validation_signals=5, loss="least_squares")
    Y, X = task.signals(0, 32)
    network = networks.build("residual", PHI, Y=Y, rng=0, width=64, depth=4, output="estimate")
    settings = PRESETS["modern"].but(batch_size=32, learning_rate=0.01, rounds=1)
    training.train(network, task, settings, samples=600 * 32, n_threads=1)
    estimate = network(torch.from_numpy(Y)).detach().numpy()
    assert np.linalg.norm(estimate - X) < 0.2 * np.linalg.norm(X)
    assert ms.metrics.strict_accuracy(X, network.scores(Y)) == 1.0


class Scripted(training.SupportTask):
    """Says of every validation what it is told to say."""

    script: tuple[float, ...] = ()

    def validate(self, network):
        self.seen = [*getattr(self, "seen", []), {k: v.clone() for k, v in network.state_dict().items()}]
        return {"score": self.script[len(self.seen) - 1]}


def test_the_best_weights_are_kept(tmp_path):
    task = Scripted(PHI, sparsity=2, rng=0)
    task.script = (0.1, 0.8, 0.3, 0.5)
    network, _ = make()
    report = training.train(network, task, QUICK, samples=64 * 32, output=tmp_path / "m.safetensors", n_threads=1)
    assert [entry["score"] for entry in report.history] == [0.1, 0.8, 0.3, 0.5]
    assert report.best["score"] == 0.8
    stored = networks.load(tmp_path / "m.safetensors").network.state_dict()
    for key, value in task.seen[1].items():
        assert torch.equal(network.state_dict()[key], value)
        assert torch.equal(stored[key], value)
    assert not torch.equal(task.seen[3]["last.weight"], task.seen[1]["last.weight"])


def test_moving_average_is_what_is_validated():
    task = Scripted(PHI, sparsity=2, rng=0)
    task.script = (0.1, 0.2, 0.3, 0.4)
    network, _ = make()
    plain = []
    step = training.run.Run.step

    def recording(self, *arguments):
        step(self, *arguments)
        plain.append(self.network.last.weight.detach().clone())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.run.Run, "step", recording)
        training.train(network, task, QUICK.but(ema=0.9), samples=64 * 32, n_threads=1)
    expected = plain[0].clone()
    for count, weight in enumerate(plain[1:], start=1):
        decay = min(0.9, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * weight
    torch.testing.assert_close(task.seen[-1]["last.weight"], expected)


def test_half_precision_is_in_the_hidden_products_of_training_alone():
    network, task = make()
    seen = {}
    names = {layer: name for name, layer in network.named_modules()}

    def note(layer, inputs, output):
        seen[names[layer]] = inputs[0].dtype, output.dtype

    for layer in names:
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(note)
    training.train(network, task, QUICK.but(precision="bfloat16"), samples=32, n_threads=1)
    whole, half = torch.float32, torch.bfloat16
    assert seen["layers.0"] == seen["last"] == (whole, whole)
    assert {seen["layers.1"][1], seen["layers.2"][1]} == {half}
    assert all(p.dtype == whole for p in network.parameters())
    seen.clear()
    Y, _ = task.signals(0, 64)
    network.eval()(torch.from_numpy(Y))
    assert set(seen.values()) == {(whole, whole)}


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("feedback", [False, True])
def test_half_precision_of_recurrent_networks_rounds_products_and_keeps_states(cell, feedback):
    _, task = make()
    network = networks.build("lstm", task.Phi, hidden=8, steps=3, cell=cell, feedback=feedback, rng=0).train()
    Y, X = (torch.from_numpy(a) for a in task.signals(0, 64))
    states, gradients, losses = [], [], []
    for layer in network.cells:
        layer.register_forward_hook(lambda _layer, _inputs, output: states.extend(output))
    for precision in (torch.float32, torch.bfloat16):
        network.training_precision = precision
        network.zero_grad()
        loss = task.loss(network, Y, X)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters()]))
    assert {state.dtype for state in states} == {torch.float32}
    assert losses[0] != losses[1]  # something was rounded
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99


def test_half_precision_learns_as_much_as_single_precision():
    reached = []
    for precision in ("float32", "bfloat16"):
        network, task = make()
        settings = QUICK.but(precision=precision, learning_rate=0.01)
        report = training.train(network, task, settings, samples=1000 * 32, n_threads=1)
        reached.append(report.history[-1]["loss"])
    # The scores of a network that knows nothing give a loss of 1.5 ln 16 = 4.2.
    assert reached[0] < 2.5
    assert reached[1] == pytest.approx(reached[0], abs=0.15)


def test_settings_of_runs_that_began_before_there_was_a_precision_are_the_same():
    assert "precision" not in PRESETS["modern"].to_json()
    assert PRESETS["modern"].but(precision="bfloat16").to_json()["precision"] == "bfloat16"


def test_budgets():
    network, task = make()
    report = training.train(network, task, QUICK, samples=1000, n_threads=1)
    assert report.samples == 32 * math.ceil(1000 / 32)
    assert report.finished
    assert len(report.history) == 4
    report = training.train(network, task, QUICK, minutes=1 / 60, n_threads=1)
    assert 1.0 <= report.seconds < 20.0
    report = training.train(network, task, QUICK, minutes=60, samples=100, n_threads=1)
    assert report.samples == 128
    with pytest.raises(ValueError, match="set the training budget"):
        training.train(network, task, QUICK)


def test_schedules():
    paper, modern = PRESETS["paper"], PRESETS["modern"]
    assert [paper.rate(epoch / 150) for epoch in (0, 49.9, 50.1, 99.9, 100.1, 150)] == pytest.approx(
        [0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001]
    )
    assert paper.samples == 150 * 600_000
    rates = np.array([modern.rate(p) for p in np.linspace(0, 1, 1001)])
    assert 0 < rates[0] < 0.01 * modern.learning_rate
    assert rates[-1] < 1e-6
    assert (np.diff(rates[60:]) <= 0).all()
    assert rates.max() <= modern.learning_rate
    hold = modern.but(schedule="hold", warmup=0.1, learning_rate=1.0)
    assert [hold.rate(p) for p in (0.05, 0.1, 0.5, 0.66, 5 / 6, 1.0)] == pytest.approx([0.5, 1.0, 1.0, 1.0, 0.5, 0.0])


@pytest.mark.parametrize(
    "changes",
    [
        {"optimiser": "lion"},
        {"schedule": "x"},
        {"precision": "float16"},
        {"learning_rate": -1.0},
        {"batch_size": 0},
        {"ema": 2.0},
        {"ema": 1.0},
        {"clip": 0.0},
        {"samples": 0},
        {"set_size": 1.5},
    ],
)
def test_bad_settings(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        Settings(**changes)


class Poisoned(training.SupportTask):
    """Turns to NaN at some batch."""

    def loss(self, network, Y, X):
        self.count = getattr(self, "count", 0) + 1
        return super().loss(network, Y, X) * (math.nan if self.count == 50 else 1.0)


def test_nan_keeps_the_last_good_weights(tmp_path):
    network, _ = make()
    task = Poisoned(PHI, sparsity=2, rng=0, validation_signals=10)
    output = tmp_path / "m.safetensors"
    with pytest.raises(training.DivergenceError, match=r"the loss became nan after .* Try a smaller learning rate"):
        training.train(network, task, QUICK, samples=64 * 32, output=output, n_threads=1)
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())
    # The last save before batch 50 was the validation after batch 48.
    healthy, _ = make()
    kept = training.SupportTask(PHI, sparsity=2, rng=0, validation_signals=10)
    weights = []
    training.train(
        healthy,
        kept,
        QUICK,
        samples=64 * 32,
        n_threads=1,
        callback=lambda report: weights.append({k: v.clone() for k, v in healthy.state_dict().items()}),
    )
    for key, value in weights[2].items():
        assert torch.equal(network.state_dict()[key], value), key
    assert networks.load(output).network is not None
    assert checkpoint_path(output).exists()


class Steep(training.SupportTask):
    """Has a gradient that is NaN, with a loss that is not, at some batches."""

    steep: tuple[int, ...] = ()

    def loss(self, network, Y, X):
        self.count = getattr(self, "count", -1) + 1
        nothing = (0.0 * network.last.weight[0, 0]).sqrt() if self.count in self.steep else 0.0
        return super().loss(network, Y, X) + nothing


def test_a_step_without_a_finite_gradient_is_left_out(monkeypatch):
    network, _ = make()
    task = Steep(PHI, sparsity=2, rng=0, validation_signals=10)
    task.steep = (0, 3, 4)
    weights = []
    step = training.run.Run.step

    def recording(self, *arguments):
        step(self, *arguments)
        weights.append(self.network.last.weight.detach().clone())

    monkeypatch.setattr(training.run.Run, "step", recording)
    report = training.train(network, task, QUICK, samples=8 * 32, n_threads=1)
    assert (report.batches, report.skipped) == (8, 3)
    for number in range(1, 8):
        assert torch.equal(weights[number], weights[number - 1]) == (number in task.steep)


def test_gradients_that_stay_nan_end_the_run(monkeypatch):
    monkeypatch.setattr(training.run, "MOST_SKIPPED", 5)
    network, _ = make()
    before = network.last.weight.detach().clone()
    task = Steep(PHI, sparsity=2, rng=0, validation_signals=10)
    task.steep = (0, 2, *range(4, 99))  # only those in a row count
    with pytest.raises(training.DivergenceError, match="the gradient was not finite 5 times in a row after") as error:
        training.train(network, task, QUICK, samples=64 * 32, n_threads=1)
    assert task.count == 8
    assert error.value.reason == "the gradient was not finite 5 times in a row"
    assert torch.equal(network.last.weight, before)  # nothing was saved since


class Rising(training.SupportTask):
    """Is interrupted in its first batch, whose loss is next to nothing."""

    def batch(self, number, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return super().batch(number, *arguments)

    def loss(self, network, Y, X):
        return 1e-9 * super().loss(network, Y, X)


def test_an_interruption_does_not_change_what_counts_as_divergence(tmp_path, monkeypatch):
    monkeypatch.setattr(training.run, "HARMLESS", 0.0)
    output = tmp_path / "m.safetensors"
    task = Rising(PHI, sparsity=(1, 2), rng=0, validation_signals=20)
    with pytest.raises(training.InterruptedTraining, match="after 32 signals"):
        training.train(make()[0], task, QUICK, samples=64 * 32, output=output, n_threads=1)
    resume(output)  # without the interruption, the first look would have been at many batches
    assert networks.load(output).about["report"]["finished"]


def test_a_loss_that_begins_at_nothing_may_grow():
    """With orthogonal atoms hard thresholding makes no error; the first steps of training make small ones."""
    task = training.SupportTask(np.eye(4), sparsity=1, loss="least_squares", rng=0, validation_signals=10)
    network = networks.build("iht_net", np.eye(4), depth=4)
    report = training.train(network, task, QUICK.but(rounds=64), samples=64 * 32, n_threads=1)
    assert report.history[0]["loss"] == 0.0
    assert 0.0 < report.loss < 1e-3


def test_divergence_without_nan():
    network, task = make()
    with pytest.raises(training.DivergenceError, match="training diverged"):
        training.train(
            network, task, QUICK.but(optimiser="sgd", learning_rate=1e9, warmup=0.0), samples=10**4, n_threads=1
        )
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_saves_and_says_how_to_resume(tmp_path, number):
    output = tmp_path / "m.safetensors"
    network, task = make()
    before = signal.getsignal(signal.SIGINT)  # ignored where the tests run in the background of a shell

    def interrupt(report):
        if len(report.history) == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt, match=r"To resume: call train\(\) again with resume=True"):
        training.train(network, task, QUICK, samples=64 * 32, output=output, callback=interrupt, n_threads=1)
    assert signal.getsignal(signal.SIGINT) is before
    assert not network.training
    resumed, task = make()
    training.train(resumed, task, QUICK, samples=64 * 32, output=output, resume=True, n_threads=1)
    whole, task = make()
    training.train(whole, task, QUICK, samples=64 * 32, n_threads=1)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key])


@pytest.mark.parametrize("where", ["batch", "validate"])
def test_an_interruption_at_the_very_end_reaches_the_caller_of_a_finished_run(tmp_path, monkeypatch, where):
    output = tmp_path / "m.safetensors"
    network, task = make()
    function = getattr(task, where)

    def interrupted(*arguments):
        if where == "validate" or arguments[0] == 63:
            os.kill(os.getpid(), signal.SIGINT)
        return function(*arguments)

    monkeypatch.setattr(task, where, interrupted)
    with pytest.raises(training.InterruptedTraining, match=r"at the end of the budget; '.*m\.safetensors' is complete"):
        training.train(network, task, QUICK.but(rounds=1), samples=64 * 32, output=output, n_threads=1)
    model = networks.load(output)
    assert model.about["report"]["finished"]
    assert not checkpoint_path(output).exists()
    assert not network.training
    for key, value in model.network.state_dict().items():
        assert torch.equal(value, network.state_dict()[key])


def test_an_unfinished_run_is_not_overwritten(interrupted):
    content = checkpoint_path(interrupted).read_bytes()
    network, task = make()
    with pytest.raises(ValueError, match="an unfinished run is in"):
        training.train(network, task, QUICK, samples=32, output=interrupted)
    assert checkpoint_path(interrupted).read_bytes() == content
    training.train(network, task, QUICK, samples=32, output=interrupted, overwrite=True, n_threads=1)
    assert not checkpoint_path(interrupted).exists()


def test_a_finished_model_is_not_overwritten(tmp_path):
    output = tmp_path / "m.safetensors"
    network, task = make()
    training.train(network, task, QUICK, samples=32, output=output, n_threads=1)
    content = output.read_bytes()
    with pytest.raises(ValueError, match=r"already exists; choose another name, or replace it with overwrite=True"):
        training.train(network, task, QUICK, samples=64, output=output, n_threads=1)
    assert output.read_bytes() == content
    training.train(network, task, QUICK, samples=64, output=output, overwrite=True, n_threads=1)
    assert networks.load(output).about["report"]["samples"] == 64


@pytest.mark.parametrize("option", [{"minutes": 1.0}, {"samples": 9}, {"resume": True}])
def test_a_resumed_run_keeps_its_budget(interrupted, option):
    with pytest.raises(ValueError, match=f"resume does not accept {next(iter(option))}=: it is in the checkpoint"):
        training.resume(interrupted, **option)


def test_skipped_steps_are_counted_on_after_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr(training.run, "MOST_SKIPPED", 5)
    output, options = tmp_path / "m.safetensors", {"samples": 64 * 32, "n_threads": 1}
    for steep, resume, error in (((0, 1, 2), False, KeyboardInterrupt), (range(99), True, training.DivergenceError)):
        network, _ = make()
        task = Steep(PHI, sparsity=2, rng=0, validation_signals=10)
        task.steep = tuple(steep)
        batch = task.batch

        def interrupting(number, *arguments, batch=batch):
            if number == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return batch(number, *arguments)

        monkeypatch.setattr(task, "batch", interrupting)
        with pytest.raises(error):
            training.train(network, task, QUICK, output=output, resume=resume, **options)
    assert task.count == 1  # two more, after three before the interruption


class Shaky(training.SupportTask):
    """Cannot be validated."""

    def validate(self, network):
        raise FloatingPointError("scores became NaN")


def test_a_validation_that_fails_ends_the_run():
    with pytest.raises(training.DivergenceError, match="scores became NaN after"):
        training.train(make()[0], Shaky(PHI, sparsity=2, rng=0), QUICK, samples=64, n_threads=1)


def test_processes_agree(tmp_path):
    """Any process may ask for an end; a validation that fails in the first one ends all; the value is the first's.

    They meet three times, as those of a script that trains one network after the other. They leave no threads behind,
    which the end of the interpreter could catch at work.
    """
    code = tmp_path / "run.py"
    code.write_text(
        "import atexit, math, os, pathlib, signal\n"
        "@atexit.register\n"
        "def threads():\n"
        "    names = [name.read_text() for name in pathlib.Path('/proc/self/task').glob('*/comm')]\n"
        "    print('still running:', [name for name in names if 'gloo' in name])\n"
        "from maxsparse import dictionaries, networks, training\n"
        "from maxsparse.training.processes import Processes\n"
        "rank = int(os.environ['RANK'])\n"
        "with Processes.join('cpu', 1) as processes:\n"
        "    assert processes.agree(0.3 + rank, rank == 1, False) == (0.3, True, False)\n"
        "    assert math.isnan(processes.agree(math.nan if rank == 0 else 1.0)[0])\n"
        "class Task(training.SupportTask):\n"
        "    ill = False\n"
        "    def batch(self, number, *arguments):\n"
        "        if not self.ill and rank == 1 and number == 3:\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "        return super().batch(number, *arguments)\n"
        "    def validate(self, network):\n"
        "        raise FloatingPointError('ill')\n"
        "Phi = dictionaries.gaussian(8, 16, rng=0)\n"
        "settings = training.PRESETS['modern'].but(batch_size=32, rounds=1)\n"
        "for ill, error in ((False, training.InterruptedTraining), (True, training.DivergenceError)):\n"
        "    task = Task(Phi, sparsity=2, rng=0)\n"
        "    task.ill = ill\n"
        "    network = networks.build('residual', Phi, width=16, depth=4, rng=0)\n"
        "    try:\n"
        "        training.train(network, task, settings, samples=320, device='cpu', n_threads=1)\n"
        "    except error as stop:\n"
        "        assert ill or 'after 128 signals' in str(stop), stop\n"
        "    else:\n"
        "        raise AssertionError\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(code)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("still running: []") == 2


def test_training_outside_the_main_thread():
    network, task = make()
    reports = []
    thread = threading.Thread(
        target=lambda: reports.append(training.train(network, task, QUICK, samples=320, n_threads=1))
    )
    thread.start()
    thread.join()
    assert reports[0].finished


@pytest.fixture
def interrupted(tmp_path):
    """A run that stopped in the middle; returns its output."""
    output = tmp_path / "m.safetensors"
    network, task = make()

    def stop(report):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        training.train(network, task, QUICK, samples=64 * 32, output=output, callback=stop, n_threads=1)
    return output


def resume(output, *, network=None, task=None, settings=QUICK, samples=64 * 32):
    own_network, own_task = make()
    training.train(
        network or own_network, task or own_task, settings, samples=samples, output=output, resume=True, n_threads=1
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": networks.build("residual", PHI, width=20, depth=4)}, "another run: its hyperparameters"),
        ({"network": networks.build("ista_net", PHI, output="logits")}, "another run: its network"),
        ({"task": training.SupportTask(PHI, sparsity=(1, 2), rng=1)}, "another run: its task"),
        ({"settings": QUICK.but(learning_rate=0.1)}, "another run: its settings"),
        ({"samples": 5}, "another run: its budget"),
    ],
)
def test_a_checkpoint_of_another_run(interrupted, changes, message):
    with pytest.raises(ValueError, match=message):
        resume(interrupted, **changes)


def test_damaged_and_missing_checkpoints(interrupted):
    path = checkpoint_path(interrupted)
    content = path.read_bytes()
    for damaged in (b"", content[:100], content[: len(content) // 2], b"PK" + content):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged or not a safetensors file"):
            resume(interrupted)
    networks.save(make()[0], path)
    with pytest.raises(ValueError, match="holds a network, not a checkpoint"):
        resume(interrupted)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        resume(interrupted)


@pytest.mark.parametrize(
    ("where", "value"),
    [(("optimiser", "state"), [1]), (("optimiser",), 3), (("run", "report"), "x"), (("run", "threads"), "x")],
)
def test_a_forged_checkpoint(interrupted, where, value):
    path = checkpoint_path(interrupted)
    tensors, header = read_checkpoint(path)
    holder = header
    for key in where[:-1]:
        holder = holder[key]
    holder[where[-1]] = value
    storage.write(path, tensors, header)
    with pytest.raises(ValueError, match="is damaged"):
        resume(interrupted)


def test_usual_numbers_of_nonzeros(tmp_path):
    for n, m, most in ((8, 16, 4), (20, 5, 5), (1, 1, 1)):
        Phi, path = ms.dictionaries.gaussian(n, m, rng=0), tmp_path / f"{n}.safetensors"
        training.fit(Phi, "ista_net", settings=QUICK, samples=64, output=path, rng=0, n_threads=1)
        assert networks.load(path).about["task"]["sparsity"] == [1, most]


def test_device_and_threads():
    network, task = make()
    before = torch.get_num_threads()
    training.train(network, task, QUICK, samples=64, device="auto", n_threads=1)
    assert torch.get_num_threads() == before
    assert network.W.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    for device in ("abacus", "meta"):
        with pytest.raises(ValueError, match=f"device '{device}' cannot be used"):
            training.train(network, task, QUICK, samples=64, device=device, n_threads=1)


def test_interrupted_fit_names_the_function_that_goes_on(tmp_path):
    output = tmp_path / "m.safetensors"
    options = {
        "samples": 640,
        "rng": 0,
        "n_threads": 1,
        "callback": lambda report: os.kill(os.getpid(), signal.SIGTERM),
    }
    with pytest.raises(KeyboardInterrupt, match=r"To resume: maxsparse\.training\.resume\('.*m\.safetensors'\)"):
        training.fit(PHI, "ista_net", settings=QUICK, output=output, hyperparameters={"depth": 2}, **options)


def test_progress_line():
    report = training.Report(samples=5000, loss=2.5, history=[{"strict": [1.0, 0.5], "loose": [1.0, 0.75]}])
    assert training.display.describe(report) == "5,000 signals, loss 2.5  s-acc 100 50  l-acc 100 75"


def test_data_making_is_not_the_bottleneck():
    """A batch is made in a fraction of the time that the paper's network needs for it, both in processor time."""
    import time

    Phi = ms.dictionaries.decaying(20, 100, rng=0)
    task = training.SupportTask(Phi, rng=0)
    network = networks.build("residual", Phi, rng=0)
    cpu = torch.device("cpu")
    with training.processes.Processes.join("cpu", 1):
        task.batch(0, 512, slice(0, 512), cpu)
        begun = time.process_time()
        for number in range(1, 9):
            Y, X = task.batch(number, 512, slice(0, 512), cpu)
        data = (time.process_time() - begun) / 8
        begun = time.process_time()
        task.loss(network, Y, X).backward()
        assert data < 0.1 * (time.process_time() - begun)


assert loop.CHECKPOINT_SECONDS >= 10  # the tests above count on saves at validations alone
