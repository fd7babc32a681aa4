"""Export a model to a checked ONNX file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from maxsparse import __version__, metrics, signals
from maxsparse._core.atomic import atomic_write
from maxsparse._core.extras import needs
from maxsparse._core.modelfile import kind_of
from maxsparse.learned_sbl import LearnedScores
from maxsparse.recovery.recoverer import SparseRecoverer
from maxsparse.recovery.recoverer import load as load_recoverer
from maxsparse.recovery.trained import TrainedScores

if TYPE_CHECKING:
    from onnx import ModelProto

    from maxsparse.networks import Model

__all__ = ["Exported", "read_model", "to_onnx"]

TOLERANCE = 1e-4
BATCHES = (1, 7, 64)  # batch sizes of the check: any size must work
TEST_SIGNALS = 500  # per number of nonzeros, to measure accuracy
Scores = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Exported:
    """The exported file, and how it compares with the model.

    Attributes
    ----------
    path : Path
    network : str
        Name of the network.
    n, m : int
        Length of a signal, number of scores.
    size : int
        Bytes of the file.
    error : float
        Largest difference between scores of onnxruntime and of this package, relative to the largest score if that
        is above 1. For ``int8`` that of the file before quantisation.
    accuracy : dict of int to tuple of two floats
        Only for ``int8``: strict accuracy of the model and of the file, for every number of nonzeros.
    """

    path: Path
    network: str
    n: int
    m: int
    size: int
    error: float
    accuracy: dict[int, tuple[float, float]] = field(default_factory=dict)


def to_onnx(
    model: SparseRecoverer | Model | str | os.PathLike[str], path: str | os.PathLike[str], *, int8: bool = False
) -> Exported:
    """Write the network of a model to an ONNX file that needs only an ONNX runtime.

    The file has one input ``y`` (batch, n), float64, and one output ``scores`` (batch, m), float32, for batches of any
    size; of the bundled networks it contains that of the first pass. Whitening and scaling are included. It is written
    only if the scores of onnxruntime agree with this package to 1e-4.

    Parameters
    ----------
    model : SparseRecoverer, networks.Model or path
        A recoverer (its `noise` becomes part of the file), the result of :func:`maxsparse.networks.load`, or a file of
        either.
    path : str or path
        File to write.
    int8 : bool, default=False
        Quantise the weights of the layers and the activations to 8 bits: about a quarter of the size. The accuracy is
        measured on 500 signals per number of nonzeros, with the amplitudes of the training, and reported.

    Returns
    -------
    exported : Exported

    Notes
    -----
    ONNX has no Cholesky factorisation and no matrix inverse. In the graph of learned SBL they are replaced by n
    steps of elimination, in float64; the check also compares with the network in float64, because two float32
    computations of ill-conditioned systems do not agree to a fixed number of digits. The file runs all iterations,
    whereas this package stops early for signals that have converged.

    Examples
    --------
    >>> import os, tempfile
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(6, 12, rng=0)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> exported = ms.export.to_onnx(ms.SparseRecoverer(Phi), path)
    >>> exported.error < 1e-4
    True
    """
    with needs("export"):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    source = read_model(model) if isinstance(model, str | os.PathLike) else model
    Phi, scorer, noise = _parts(source)
    law = _amplitudes(source)
    proto, reference, name = _graph(Phi, scorer, noise)
    _describe(proto, name, Phi.shape, noise)
    content = proto.SerializeToString()
    error = _check(content, reference, Phi, noise, law)
    accuracy: dict[int, tuple[float, float]] = {}
    if int8:
        from maxsparse.export.quantize import quantize

        if isinstance(scorer, LearnedScores):
            raise ValueError(
                "int8 is only for trained networks: learned SBL has few weights, and its linear systems need float64"
            )
        content = quantize(proto)
        accuracy = _accuracy(content, reference, Phi, noise, law)
    with atomic_write(path) as stream:
        stream.write(content)
    n, m = Phi.shape
    return Exported(Path(path), name, n, m, len(content), error, accuracy)


def read_model(path: str | os.PathLike[str]) -> SparseRecoverer | Model:
    """Read a model file of either kind: a recoverer, or a network that ``maxsparse fit`` wrote."""
    if kind_of(path) == "network":
        from maxsparse.networks import load

        return load(path)
    return load_recoverer(path)


def onnx_scores(content: bytes) -> Scores:
    """Return a function that runs the bytes of an ONNX file in onnxruntime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda Y: np.asarray(session.run(["scores"], {"y": np.ascontiguousarray(Y, dtype=np.float64)})[0])


def _parts(model: SparseRecoverer | Model) -> tuple[NDArray[np.float64], LearnedScores | TrainedScores, float]:
    """Return Φ, the network or weights, and the noise level."""
    if not isinstance(model, SparseRecoverer):
        if "Phi" not in model.arrays:
            raise ValueError("this network is not for one dictionary and cannot be exported")
        model = SparseRecoverer(model.arrays["Phi"], network=model.network)
    scorer = model.scorer()
    if not isinstance(scorer, LearnedScores | TrainedScores):
        raise ValueError("only networks of maxsparse.networks can be exported, not a custom scorer")
    if np.ndim(model.noise) > 0:
        raise ValueError("noise with one value per measurement cannot be exported; give SparseRecoverer one number")
    noise = 0.0 if isinstance(model.noise, str) else float(cast(float, model.noise))  # "auto" scores for none first
    return np.asarray(model.Phi, dtype=np.float64), scorer, noise


def _amplitudes(model: SparseRecoverer | Model) -> str:
    """Return the amplitudes that a network was trained on, to test it with; uniform where that is not known."""
    about = {} if isinstance(model, SparseRecoverer) else model.about
    law = about.get("task", {}).get("amplitudes")
    return law if law in signals.AMPLITUDES else "uniform"


def _graph(
    Phi: NDArray[np.float64], scorer: LearnedScores | TrainedScores, noise: float
) -> tuple[ModelProto, Scores, str]:
    """Return the graph, the same function computed here, and the network's name."""
    if isinstance(scorer, LearnedScores):
        from maxsparse.learned_sbl import onnx

        problem = scorer.weights, scorer.prepared, noise
        return onnx.graph(*problem), onnx.reference(*problem), "learned_sbl"
    from maxsparse.export.trained import graph

    return graph(scorer), scorer, scorer.network.name


def _describe(proto: ModelProto, name: str, shape: tuple[int, ...], noise: float) -> None:
    import onnx

    proto.producer_name, proto.producer_version = "maxsparse", __version__
    proto.doc_string = "Signals y (batch, n) in, scores of every atom (batch, m) out; larger is more likely."
    facts = {"network": name, "n": str(shape[0]), "m": str(shape[1]), "noise": repr(noise)}
    onnx.helper.set_model_props(proto, facts)
    onnx.checker.check_model(proto, full_check=True)


def _check(content: bytes, reference: Scores, Phi: NDArray[np.float64], noise: float, amplitudes: str) -> float:
    """Return the largest relative difference of scores; raise an error if it is too large."""
    computed, worst = onnx_scores(content), 0.0
    for size in BATCHES:
        d = (1, max(1, Phi.shape[0] // 2))
        _, Y = signals.sample(Phi, size, sparsity=d, amplitudes=amplitudes, noise=noise, rng=size)
        expected = reference(Y)
        found = computed(Y)
        if found.shape != expected.shape:
            raise RuntimeError(f"the exported file returns shape {found.shape} instead of {expected.shape}")
        worst = max(worst, float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max())))
    if not worst <= TOLERANCE:
        raise RuntimeError(f"the exported file differs from the network by {worst:.1e}; nothing was written")
    return worst


def _accuracy(
    content: bytes, reference: Scores, Phi: NDArray[np.float64], noise: float, amplitudes: str
) -> dict[int, tuple[float, float]]:
    """Measure strict accuracy of the network and of the file for d = 1, 2, …, n/2."""
    computed, figures = onnx_scores(content), {}
    for d in range(1, max(1, Phi.shape[0] // 2) + 1):
        X, Y = signals.sample(Phi, TEST_SIGNALS, sparsity=d, amplitudes=amplitudes, noise=noise, rng=d)
        figures[d] = metrics.strict_accuracy(X, reference(Y)), metrics.strict_accuracy(X, computed(Y))
    return figures
