"""Exported files against the models they were made from, in onnxruntime alone."""

import numpy as np
import pytest

import maxsparse as ms
from maxsparse.learned_sbl import LearnedScores

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

HYPERPARAMETERS = {
    "residual": {"width": 24, "depth": 4},
    "residual helu": {"width": 24, "depth": 4, "activation": "helu", "whiten": False, "residual": False},
    "lstm": {"hidden": 12, "steps": 3},
    "lstm gru feedback": {"hidden": 12, "steps": 3, "cell": "gru", "feedback": True},
    "ista_net": {"depth": 4},
    "iht_net": {"depth": 4, "tied": False},
}


@pytest.fixture(scope="module")
def Phi():
    return ms.dictionaries.decaying(10, 24, rng=1)


def run(path, Y):
    """Run a file as somebody without maxsparse would."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"y": Y})[0]


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_learned_sbl_finds_what_the_compiled_one_finds(Phi, tmp_path, noise):
    exported = ms.export.to_onnx(ms.SparseRecoverer(Phi, noise=noise), tmp_path / "model.onnx")
    assert exported.error < 1e-6
    # Signals of very different size have different levels of noise in the same batch.
    X, Y = ms.signals.sample(Phi, 200, sparsity=3, noise=noise, rng=2)
    Y[::2] *= 10.0
    ours, theirs = LearnedScores(Phi, confident=np.inf)(Y, noise), run(exported.path, Y)
    # The compiled network is float32, the file float64: they agree where that is enough.
    assert np.median(np.abs(ours - theirs).max(axis=1)) < 0.05
    difference = ms.metrics.strict_accuracy(X, ours) - ms.metrics.strict_accuracy(X, theirs)
    assert abs(difference) <= 0.03


def test_a_dictionary_of_low_rank_and_awkward_signals(tmp_path):
    Phi = np.vstack([ms.dictionaries.gaussian(6, 15, rng=0), np.zeros((1, 15))])
    path = ms.export.to_onnx(ms.SparseRecoverer(Phi), tmp_path / "model.onnx").path
    assert run(path, np.zeros((0, 7))).shape == (0, 15)
    assert np.isfinite(run(path, np.zeros((2, 7)))).all()
    assert np.isfinite(run(path, np.full((1, 7), 1e-200))).all()


@pytest.mark.parametrize("kind", HYPERPARAMETERS)
def test_trained_networks(Phi, tmp_path, kind):
    name = kind.split()[0]
    _, Y = ms.signals.sample(Phi, 33, sparsity=2, rng=1)
    network = ms.networks.build(name, Phi, Y=Y, rng=0, **HYPERPARAMETERS[kind])
    ms.networks.save(network.eval(), tmp_path / "model.safetensors", arrays={"Phi": Phi})
    exported = ms.export.to_onnx(tmp_path / "model.safetensors", tmp_path / "model.onnx")
    assert (exported.network, exported.n, exported.m) == (name, 10, 24)
    expected = network.scores(Y)
    np.testing.assert_allclose(run(exported.path, Y), expected, atol=1e-4 * max(1, np.abs(expected).max()))
    props = {entry.key: entry.value for entry in onnx.load(exported.path).metadata_props}
    assert props["network"] == name


def test_int8_is_small_and_says_what_it_costs(Phi, tmp_path):
    model = ms.SparseRecoverer(Phi, network="residual", n_threads=1)
    model.fit(samples=10_000, sparsity=(1, 2), hyperparameters={"width": 64, "depth": 6})
    model.save(tmp_path / "model.safetensors")
    plain = ms.export.to_onnx(tmp_path / "model.safetensors", tmp_path / "plain.onnx")
    small = ms.export.to_onnx(tmp_path / "model.safetensors", tmp_path / "small.onnx", int8=True)
    assert small.size < 0.6 * plain.size
    assert set(small.accuracy) == {1, 2, 3, 4, 5}
    X, Y = ms.signals.sample(Phi, 500, sparsity=1, rng=1)
    assert small.accuracy[1][0] == ms.metrics.strict_accuracy(X, model.recover(Y).scores)
    assert small.accuracy[1][1] == ms.metrics.strict_accuracy(X, run(small.path, Y))
    assert small.accuracy[1][0] > 0.3
    assert small.accuracy[1][1] > 0.8 * small.accuracy[1][0]
    # The scores are calibrated in the file as well.
    np.testing.assert_allclose(run(plain.path, Y), model.recover(Y).scores, atol=1e-3)


@pytest.mark.parametrize("name", ["residual-20x100", "lstm-unit-20x100"])
def test_int8_keeps_the_accuracy_whatever_else_is_in_the_batch(name, tmp_path):
    """One scale for all signals, as onnxruntime's own tool has it, gave .31 instead of .75 at d = 5."""
    if ms.networks.zoo_folder() is None:
        pytest.skip("the networks of the repository are not here")
    exported = ms.export.to_onnx(ms.networks.pretrained(name), tmp_path / "small.onnx", int8=True)
    for of_the_model, of_the_file in exported.accuracy.values():
        assert of_the_file == pytest.approx(of_the_model, abs=0.03)
    Y = np.random.default_rng(0).standard_normal((40, 20))
    alone = np.vstack([run(exported.path, row[None]) for row in Y])
    off = np.abs(run(exported.path, Y) - alone).max(axis=1)
    # A rounding error of the float64 part may move an integer by one, in a signal here and there.
    assert np.mean(off < 1e-6 * np.abs(alone).max()) > 0.9
    assert off.max() < 0.1 * np.abs(alone).max()


def test_int8_layers_by_hand():
    """Scales, rows of zeros, shared inputs and weights, both ways round, and what is left as it is."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    from maxsparse.export.convert import onnx_scores
    from maxsparse.export.quantize import quantize

    rng = np.random.default_rng(0)
    W, V, c = rng.standard_normal((6, 5)), rng.standard_normal((5, 5)), rng.standard_normal(5)
    W[:, 2] = 0
    nodes = [
        helper.make_node("Cast", ["y"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "W"], ["a"]),
        helper.make_node("Gemm", ["a", "V", "c"], ["b"], transB=1),
        helper.make_node("Transpose", ["V"], ["Vt"]),
        helper.make_node("Gemm", ["a", "Vt", "b"], ["d"]),
        helper.make_node("Gemm", ["a", "V", "d"], ["scores"], alpha=0.5),  # not a plain layer
    ]
    arrays = {"W": W, "V": V, "c": c}
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["N", 6])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 5])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in arrays.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    content = quantize(proto)
    Y = rng.standard_normal((200, 6)) * 10.0 ** rng.uniform(-3, 3, (200, 1))
    Y[3] = 0
    found = onnx_scores(content)(Y)
    a = Y @ W
    expected = 2 * (a @ V.T) + c + 0.5 * a @ V
    np.testing.assert_allclose(found[3], c, atol=1e-6)
    error = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error.max() < 0.05
    assert np.median(error) < 0.01
    kinds = [node.op_type for node in onnx.load_from_string(content).graph.node]
    assert kinds.count("MatMulInteger") == 3
    assert kinds.count("Gemm") == 1
    assert kinds.count("Abs") == 2  # x and a, once each


def test_what_cannot_be_exported_is_said(Phi, tmp_path):
    class Mine:
        def scores(self, Y):
            return Y @ Phi

    with pytest.raises(ValueError, match="not a custom scorer"):
        ms.export.to_onnx(ms.SparseRecoverer(Phi, network=Mine()), tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="int8 is only for trained networks"):
        ms.export.to_onnx(ms.SparseRecoverer(Phi[:4, :8]), tmp_path / "model.onnx", int8=True)
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged"):
        ms.export.to_onnx(tmp_path / "bad.safetensors", tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError):
        ms.export.to_onnx(tmp_path / "none.safetensors", tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_file_that_differs_is_not_written(Phi, tmp_path, monkeypatch):
    from maxsparse.export import convert

    true = convert.onnx_scores
    monkeypatch.setattr(convert, "onnx_scores", lambda content: lambda Y: true(content)(Y) + 1e-2)
    with pytest.raises(RuntimeError, match="differs"):
        ms.export.to_onnx(ms.SparseRecoverer(Phi[:4, :8]), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
