"""The network of ``auto``: where it starts, what leaves it unchanged, and its file."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open

from maxsparse import stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.learned.forward import refine
from maxsparse.stereo.learned.model import ReadingNetwork
from maxsparse.stereo.learned.start import first_guess
from maxsparse.stereo.learned.store import bundled_path, load_network, load_weights, save_network
from maxsparse.stereo.learned.synthesis import sample_lights, sample_readings
from maxsparse.stereo.learned.train import SETTINGS, ReadingTask, training_loss
from maxsparse.training import train

LIGHTS = stereo.hemisphere_lights(18, rng=5)


def synthetic(count=200, lights=LIGHTS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return sample_readings(torch.as_tensor(lights, dtype=torch.float32), count, generator)


def run(network, readings, lights):
    start, guess = first_guess(readings, lights)
    with torch.inference_mode():
        return network(start.tensors()), guess


@pytest.fixture(scope="module")
def stirred():
    """A network whose weights do something, unlike the first ones."""
    torch.manual_seed(0)
    network = ReadingNetwork()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    return network.eval()


def test_an_untrained_network_is_a_weighted_consensus_fit():
    truth = synthetic()
    refined, guess = run(ReadingNetwork().eval(), truth.values.double().numpy(), LIGHTS)
    certain = guess.inliers.sum(axis=1) >= 8
    angles = angular_error(refined.normals.numpy()[certain], guess.normals[certain])
    assert np.median(angles) < 1.0


def test_the_order_of_the_lights_does_not_matter(stirred):
    o = synthetic().values.double().numpy()
    order = np.random.default_rng(0).permutation(18)
    network = stirred
    start = first_guess(o, LIGHTS)[0].tensors()
    shuffled = replace(
        start,
        values=start.values[:, order],
        lights=start.lights[order],
        logits=start.logits[:, order],
        lit=start.lit[:, order],
    )
    with torch.inference_mode():
        a, b = network(start), network(shuffled)
    torch.testing.assert_close(a.normals, b.normals, atol=2e-4, rtol=0)
    torch.testing.assert_close(a.logits[:, order], b.logits, atol=5e-3, rtol=1e-3)


def test_turning_the_rig_about_the_view_turns_the_normals(stirred):
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    o = synthetic().values.double().numpy()
    a, _ = run(stirred, o, LIGHTS)
    b, _ = run(stirred, o, LIGHTS @ turn.T)
    expected = a.normals.double().numpy() @ turn.T
    assert np.quantile(angular_error(b.normals.numpy(), expected), 0.95) < 0.1


@pytest.mark.parametrize("q", [9, 18, 50])
def test_the_compiled_network_is_the_torch_one(stirred, tmp_path, q):
    save_network(stirred, tmp_path / "n.safetensors")
    lights = stereo.hemisphere_lights(q, rng=q)
    start, guess = first_guess(synthetic(300, lights).values.double().numpy(), lights)
    with torch.inference_mode():
        expected = stirred(start.tensors())
    answer = refine(start, load_weights(tmp_path / "n.safetensors"))
    fitted = guess.inliers.sum(axis=1) >= 5  # elsewhere float32 cannot solve the 3×3 system well
    assert fitted.mean() > 0.4
    assert angular_error(answer.normals[fitted], expected.normals.numpy()[fitted]).max() < 0.2
    np.testing.assert_allclose(answer.logits[fitted], expected.logits.numpy()[fitted], atol=0.05)
    np.testing.assert_allclose(answer.log_error[fitted], expected.log_error.numpy()[fitted], atol=0.02)
    np.testing.assert_allclose(answer.albedo[fitted], expected.albedo.numpy()[fitted], rtol=1e-2)


def test_the_compiled_network_gives_every_pixel_the_same_bits_in_any_batch(stirred, tmp_path):
    save_network(stirred, tmp_path / "n.safetensors")
    weights = load_weights(tmp_path / "n.safetensors")
    o = synthetic(101).values.double().numpy()
    whole = refine(first_guess(o, LIGHTS)[0], weights)
    order = np.random.default_rng(0).permutation(101)[:45]
    part = refine(first_guess(o[order], LIGHTS)[0], weights)
    np.testing.assert_array_equal(whole.normals[order], part.normals)
    np.testing.assert_array_equal(whole.logits[order], part.logits)


def test_auto_needs_no_torch():
    code = (
        "import sys, numpy as np; from maxsparse import stereo; L = stereo.hemisphere_lights(8, rng=0);"
        "stereo.estimate_normals(stereo.make_scene(np.random.default_rng(0).random((8, 3, 3)), L));"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_synthetic_readings_are_what_they_claim():
    generator = torch.Generator().manual_seed(3)
    for q in (8, 20, 96):
        lights = sample_lights(q, generator)
        assert lights.shape == (q, 3)
        torch.testing.assert_close(lights.norm(dim=1), torch.ones(q))
        assert (lights[:, 2] > 0).all()
        assert np.linalg.matrix_rank(lights.numpy(), tol=1e-3) == 3
        truth = sample_readings(lights, 500, generator)
        assert torch.isfinite(truth.values).all()
        assert (truth.values >= 0).all()
        # Inliers alone give the true normal: a fit to them is far better than one to everything.
        enough = truth.inliers.sum(1) >= 5
        errors = []
        for rows in (truth.inliers, torch.ones_like(truth.inliers)):
            w = rows[enough].double()
            L = lights.double()
            A = torch.einsum("pq,qi,qj->pij", w, L, L) + 1e-9 * torch.eye(3).double()
            b = torch.einsum("pq,qi->pi", w * truth.values[enough].double(), L)
            n = torch.linalg.solve(A, b[..., None])[..., 0]
            errors.append(np.median(angular_error(n.numpy(), truth.normals[enough].numpy())))
        assert errors[0] < 0.8 * errors[1]


def test_training_learns(tmp_path):
    """A few steps of the real loop lower the loss on data the network has not seen, and the seed is in the file."""
    truth = synthetic(600, seed=9)
    start = first_guess(truth.values.double().numpy(), LIGHTS)[0].tensors()
    torch.manual_seed(0)
    network = ReadingNetwork(rounds=2, width=24, mind=24)
    with torch.no_grad():
        before = float(training_loss(network(start), truth))
    path = tmp_path / "n.safetensors"
    train(network, ReadingTask(3), SETTINGS.but(batch_size=4000, rounds=2), samples=320_000, output=path, n_threads=1)
    with torch.no_grad():
        after = float(training_loss(network(start), truth))
        again = load_network(path)(start)
    assert after < before - 0.01
    torch.testing.assert_close(again.normals, network(start).normals)
    with safe_open(path, framework="np") as stream:
        about = json.loads(stream.metadata()["maxsparse"])["about"]
    assert about["task"]["seed"] == 3
    assert about["report"]["finished"]


def test_batches_follow_from_their_number():
    task, other = ReadingTask(1), ReadingTask(1)
    device, rows = torch.device("cpu"), slice(0, 2000)
    task.batch(0, 2000, rows, device)
    first, second = task.batch(37, 2000, rows, device), other.batch(37, 2000, rows, device)
    torch.testing.assert_close(first[0].values, second[0].values, atol=0, rtol=0)
    left, right = (task.batch(37, 2000, part, device)[0].values for part in (slice(0, 1000), slice(1000, 2000)))
    torch.testing.assert_close(torch.cat([left, right]), first[0].values, atol=0, rtol=0)
    assert not torch.equal(task.batch(36, 2000, rows, device)[0].lights, first[0].lights)


def test_the_file_keeps_everything_and_refuses_what_it_is_not(stirred, tmp_path):
    path = tmp_path / "n.safetensors"
    save_network(stirred, path)
    o = synthetic().values.double().numpy()
    a, b = run(stirred, o, LIGHTS)[0], run(load_network(path), o, LIGHTS)[0]
    assert torch.equal(a.normals, b.normals)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="cannot read"):
        load_network(path)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, path, metadata={"format": "other"})
    with pytest.raises(ValueError, match="no network of photometric stereo"):
        load_network(path)
    sizes = {"rounds": 3, "width": 999999, "state": 12, "mind": 9}
    header = {"format": 1, "kind": "network", "network": "reading", "hyperparameters": sizes}
    save_file({"a": torch.zeros(2)}, path, metadata={"maxsparse": json.dumps(header)})
    with pytest.raises(ValueError, match="not credible"):
        load_network(path)


def test_the_bundled_network_beats_consensus_on_materials_it_has_not_seen():
    if not bundled_path().is_file():
        pytest.skip("no network is bundled; auto is consensus")
    network = load_network(bundled_path())
    for q in (10, 40):
        lights = stereo.hemisphere_lights(q, rng=q)
        truth = synthetic(1500, lights, seed=77)
        refined, guess = run(network, truth.values.double().numpy(), lights)
        n = truth.normals.numpy()
        assert angular_error(refined.normals.numpy(), n).mean() < 0.8 * angular_error(guess.normals, n).mean()
