"""The network of ``auto``: where it starts, what leaves it unchanged, and its file."""

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from maxsparse import networks, stereo
from maxsparse.metrics import angular_error
from maxsparse.stereo.methods.auto import auto
from maxsparse.stereo.reading_network.forward import Answer, average, refine
from maxsparse.stereo.reading_network.model import ReadingNetwork
from maxsparse.stereo.reading_network.start import first_guess
from maxsparse.stereo.reading_network.store import (
    bundled_paths,
    bundled_weights,
    load_network,
    load_weights,
    save_network,
)
from maxsparse.stereo.reading_network.synthesis import sample_lights, sample_readings

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


def test_answers_are_averaged_by_the_errors_that_the_networks_expect():
    one = np.float32
    sure = Answer(
        np.array([[0, 0, 1]], one), np.array([0.5], one), np.full((1, 4), 2, one), np.log(np.array([0.1], one))
    )
    unsure = Answer(
        np.array([[0, 0.6, 0.8]], one), np.array([1.0], one), np.zeros((1, 4), one), sure.log_error + np.log(one(3))
    )
    assert average([sure]) is sure
    both = average([sure, unsure])
    np.testing.assert_allclose(both.normals[0], np.array([0, 0.06, 0.98]) / np.hypot(0.06, 0.98), rtol=1e-6)
    np.testing.assert_allclose(both.albedo, 0.9 * 0.5 + 0.1 * 1.0, rtol=1e-6)
    np.testing.assert_allclose(both.logits, 1.0)
    np.testing.assert_allclose(np.exp(both.log_error), 0.1 * np.sqrt(3), rtol=1e-6)
    for name, value in vars(both).items():
        assert value.dtype == getattr(sure, name).dtype, name


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
    with pytest.raises(ValueError, match="not written by maxsparse"):
        load_network(path)
    sizes = {"format": "maxsparse-reading-network-1", "rounds": "3", "width": "999999", "state": "12"}
    save_file({"a": torch.zeros(2)}, path, metadata=sizes)
    with pytest.raises(ValueError, match="width must be from 1 to 1024"):
        load_network(path)
    networks.save(networks.create("learned_sbl", state=2, hidden=6), path)
    with pytest.raises(ValueError, match="not a network for photometric stereo"):
        load_weights(path)


@pytest.mark.parametrize("damage", ["shape", "nan"])
def test_weights_that_compiled_code_could_not_bear_are_refused(stirred, tmp_path, damage):
    from safetensors.torch import save_file

    tensors = {name: value.clone() for name, value in stirred.state_dict().items()}
    if damage == "shape":
        tensors["rounds.1.again.weight"] = torch.zeros(64, 63)
    else:
        tensors["rounds.2.correct.bias"][1] = torch.nan
    sizes = {"format": "maxsparse-reading-network-1", "rounds": "3", "width": "64", "state": "12"}
    save_file(tensors, tmp_path / "n.safetensors", metadata=sizes)
    message = "again.weight has shape" if damage == "shape" else "correct.bias has NaN"
    with pytest.raises(ValueError, match=message):
        load_weights(tmp_path / "n.safetensors")


def test_a_file_from_before_there_were_model_files_is_read(stirred, tmp_path):
    from safetensors.torch import save_file

    sizes = {"format": "maxsparse-reading-network-1", "rounds": "3", "width": "64", "state": "12"}
    save_file(stirred.state_dict(), tmp_path / "old.safetensors", metadata=sizes)
    save_network(stirred, tmp_path / "new.safetensors")
    old, new = (load_weights(tmp_path / f"{name}.safetensors") for name in ("old", "new"))
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a, b)
    loaded = load_network(tmp_path / "old.safetensors").state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in stirred.state_dict().items())


def rough_and_glossy(count, lights, seed):
    """Return readings (count, q) and normals of a material not in training: Oren and Nayar's with Blinn's lobe."""
    rng = np.random.default_rng(seed)
    n = rng.standard_normal((count, 3)) * [0.5, 0.5, 0] + [0, 0, 1]
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    view = np.array([0.0, 0.0, 1.0])
    half = lights + view
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    nl, nv = np.clip(n @ lights.T, 0, 1), n[:, 2:]
    along_light = lights[None] - nl[..., None] * n[:, None]
    along_view = (view - nv * n)[:, None]
    sizes = np.linalg.norm(along_light, axis=2) * np.linalg.norm(along_view, axis=2)
    azimuth = (along_light * along_view).sum(axis=2) / np.maximum(sizes, 1e-9)
    angles = np.arccos(nl), np.broadcast_to(np.arccos(nv), nl.shape)
    s2 = 0.5**2
    lifted = np.sin(np.maximum(*angles)) * np.tan(np.minimum(np.minimum(*angles), 1.5))
    diffuse = nl * (1 - 0.5 * s2 / (s2 + 0.33) + 0.45 * s2 / (s2 + 0.09) * np.maximum(azimuth, 0) * lifted)
    albedo = rng.uniform(0.3, 0.7, (count, 1))
    o = albedo * diffuse + (nl > 0) * np.clip(n @ half.T, 0, 1) ** 15
    return np.maximum(o + 0.003 * rng.standard_normal(o.shape), 0), n


def test_the_bundled_networks_beat_consensus_on_a_glossy_material_it_has_not_seen():
    if not bundled_paths():
        pytest.skip("no network is bundled; auto is consensus")
    for path, q in itertools.product(bundled_paths(), (10, 40)):
        network = load_network(path)
        lights = stereo.hemisphere_lights(q, rng=q)
        readings, n = rough_and_glossy(1500, lights, seed=77)
        refined, guess = run(network, readings, lights)
        assert angular_error(refined.normals.numpy(), n).mean() < 0.8 * angular_error(guess.normals, n).mean()


def test_auto_averages_the_bundled_networks():
    readings = rough_and_glossy(300, LIGHTS, seed=78)[0]
    start, _ = first_guess(readings, LIGHTS)
    answers = [refine(start, weights) for weights in bundled_weights()]
    assert len(answers) == 2
    fits = [auto(readings, LIGHTS, model=path) for path in (None, *bundled_paths())]
    np.testing.assert_array_equal(fits[0].inliers, (average(answers).logits > 0) & (start.lit > 0))
    assert not any(np.array_equal(fits[0].normals, fit.normals) for fit in fits[1:])
