r"""The ONNX graph of learned SBL for one dictionary, and the same function in numpy to check it against.

ONNX has no Cholesky factorisation, no inverse and no triangular solve. :math:`L^{-1}` of :math:`S = LL^\top` is
therefore computed by elimination on :math:`[S, I]`, one pivot at a time: S is symmetric and positive definite, so no
exchange of rows is needed. The iterations are two loops of the graph, so its length is proportional to n only.
Everything is float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper
from scipy.special import logsumexp

from maxsparse._core.prepared import LEAST_SIGNAL, LEVELS, Form, Prepared, noise_levels
from maxsparse.learned_sbl.onnx_graph import Graph
from maxsparse.learned_sbl.spec import (
    FEATURES,
    HEAD_LAMBDA,
    HEAD_START,
    ITERATIONS,
    LOG_FLOOR,
    SCALE,
    TINY,
    Weights,
)

__all__ = ["graph", "reference"]


def _forms(prepared: Prepared, noise: float) -> list[Form]:
    """Return the whitened dictionary for every level of noise that a signal may have; one if there is no noise."""
    return [prepared.form()] if noise == 0 else [prepared.form(level) for level in LEVELS]


def reference(weights: Weights, prepared: Prepared, noise: float) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Return the same function in numpy: signals (N, n) to scores (N, m), by the equations of the network."""

    def scores(Y: NDArray[Any]) -> NDArray[np.float64]:
        out = np.empty((len(Y), prepared.shape[1]))
        for level, rows in noise_levels(Y, noise):
            form = prepared.form(level)
            out[rows] = _forward(weights, form.Q, form.variance, Y[rows] @ form.back, noise)
        return out

    return scores


def _forward(
    weights: Weights, Q: NDArray[Any], variance: NDArray[Any], Z: NDArray[Any], noise: float
) -> NDArray[np.float64]:
    (N, r), m = Z.shape, Q.shape[1]
    scale = np.sqrt(np.mean(Z**2, axis=1, keepdims=True)) + 1e-30
    Z = Z / scale
    C = (noise / scale) ** 2 * variance
    share = C.mean(axis=1, keepdims=True)
    level = np.log(share + 1e-6) * SCALE
    log_total = np.log(r * np.maximum(1.0 - share, 0.05))

    def step(gamma: NDArray[Any], c: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        S = (Q * gamma[:, None, :]) @ Q.T + c[:, :, None] * np.eye(r)
        inverse = np.linalg.inv(S)
        return ((inverse @ Z[:, :, None])[:, :, 0]) @ Q, np.einsum("im,bij,jm->bm", Q, inverse, Q, optimize=True)

    log_gamma, h, logits = np.zeros((N, m)), np.zeros((N, m, weights.first.shape[1] - FEATURES)), np.zeros((N, m))
    for _ in range(HEAD_START):
        gamma = np.exp(log_gamma)
        u, q = step(gamma, C + HEAD_LAMBDA)
        log_gamma = np.maximum(log_gamma + np.log(np.maximum(1.0 + gamma * (u**2 - q), 1e-4)), LOG_FLOOR)
    for t in range(ITERATIONS):
        moment = min(t, len(weights.moment) - 1)
        log_gamma = log_gamma - logsumexp(log_gamma, axis=1, keepdims=True) + log_total
        log_gamma = np.maximum(log_gamma, LOG_FLOOR)
        gamma = np.exp(log_gamma)
        u, q = step(gamma, C + np.exp(np.float64(weights.log_lambda[moment])))
        log_u, log_q = np.log(u**2 + TINY), np.log(q + TINY)
        inputs = np.concatenate([np.stack([log_gamma * SCALE, log_u * SCALE, log_q * SCALE, gamma * q], 2), h], 2)
        seen = np.concatenate([inputs.mean(axis=1), level], axis=1)
        hidden = inputs @ weights.first.T + (seen @ weights.context.T + weights.moment[moment])[:, None, :]
        out = hidden * np.clip(hidden + 3.0, 0.0, 6.0) / 6.0 @ weights.last.T + weights.last_bias
        log_gamma = log_gamma + 0.5 * (log_u - log_q) + out[:, :, 0]
        logits = out[:, :, 1]
        h = h + out[:, :, 2:]
        h = h / np.sqrt(1.0 + h**2)
    return logits


def graph(weights: Weights, prepared: Prepared, noise: float) -> ModelProto:
    """Return the graph with input ``y`` (batch, n), float64, and output ``scores`` (batch, m), float32."""
    n, m = prepared.shape
    forms = _forms(prepared, noise)
    g, r = Graph(), len(forms[0].Q)
    Q: Any = forms[0].Q
    transposed: Any = Q.T
    if noise == 0:
        z, variance = g("MatMul", "y", forms[0].back), None
    else:
        level = _level(g, noise)
        W, Q, variance = (
            g("Gather", np.stack([getattr(form, name) for form in forms]), level, axis=0)
            for name in ("W", "Q", "variance")
        )
        # Outside the loop: inside it, onnxruntime 1.20 to 1.25 fuse it into a product that they lack for float64.
        transposed = g("Transpose", Q, perm=[0, 2, 1])
        z = g("Squeeze", g("MatMul", W, g("Unsqueeze", "y", np.array([2]))), np.array([2]))
    scale = g("Add", g("Sqrt", g("ReduceMean", g("Mul", z, z), np.array([1]))), 1e-30)
    z = g("Div", z, scale)
    rows = g("Shape", "y", start=0, end=1)
    if variance is None:
        C = g("Expand", np.zeros((1, r)), g("Concat", rows, np.array([r]), axis=0))
    else:
        relative = g("Div", noise, scale)
        C = g("Mul", g("Mul", relative, relative), variance)
    share = g("ReduceMean", C, np.array([1]))
    context = g("Mul", g("Log", g("Add", share, 1e-6)), SCALE)
    log_total = g("Log", g("Mul", g("Max", g("Sub", 1.0, share), 0.05), float(r)))
    step = _Step(Q, transposed, z, r)
    log_gamma = g("Expand", np.zeros((1, m)), g("Concat", rows, np.array([m]), axis=0))
    (log_gamma,) = g.loop(HEAD_START, lambda body, t, lg: [_em(body, step, C, lg)], log_gamma)
    states = weights.first.shape[1] - FEATURES
    h = g("Expand", np.zeros((1, 1, states)), g("Concat", rows, np.array([m, states]), axis=0))
    learned = _Learned(step, C, context, log_total, weights)
    _, _, logits = g.loop(ITERATIONS, learned, log_gamma, h, log_gamma)
    g.nodes.append(helper.make_node("Cast", [logits], ["scores"], "scores", to=TensorProto.FLOAT))
    return g.model(
        "learned_sbl",
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["batch", n])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", m])],
    )


def _level(g: Graph, noise: float) -> str:
    """Return the index of the level of noise of every signal, (batch,)."""
    power = g("Sub", g("ReduceMean", g("Mul", "y", "y"), np.array([1]), keepdims=0), noise**2)
    size = g("Sqrt", g("Max", power, LEAST_SIGNAL * noise**2))
    octaves = g("Round", g("Div", g("Log", g("Div", noise, size)), float(np.log(2.0))))
    kept = g("Min", g("Max", octaves, float(LEVELS.start)), float(LEVELS.stop - 1))
    return str(g("Cast", g("Sub", kept, float(LEVELS.start)), to=TensorProto.INT64))


@dataclass(frozen=True)
class _Step:
    """u = Φᵀ S⁻¹ z and q = diag(Φᵀ S⁻¹ Φ) for S = Φ diag(γ) Φᵀ + diag(c)."""

    Q: Any  # (r, m), or the name of (batch, r, m)
    transposed: Any
    z: str
    r: int

    def __call__(self, g: Graph, gamma: str, c: str) -> tuple[str, str]:
        S = g("MatMul", g("Mul", self.Q, g("Unsqueeze", gamma, np.array([1]))), self.transposed)
        S = g("Add", S, g("Mul", g("Unsqueeze", c, np.array([2])), np.eye(self.r)))
        inverse = self._inverse_root(g, S)
        V = g("MatMul", inverse, self.Q)
        a = g("MatMul", inverse, g("Unsqueeze", self.z, np.array([2])))
        u = g("ReduceSum", g("Mul", V, a), np.array([1]), keepdims=0)
        return u, g("ReduceSum", g("Mul", V, V), np.array([1]), keepdims=0)

    def _inverse_root(self, g: Graph, S: str) -> str:
        """Return L⁻¹ for S = LLᵀ, by elimination on [S, I]."""
        r = self.r
        identity = g("Expand", np.eye(r)[None], g("Shape", S))
        A = g("Concat", S, identity, axis=2)
        done = []
        for k in range(r):
            row, rest = A, None
            if k < r - 1:
                row, rest = g("Split", A, np.array([1, r - k - 1]), axis=1, outputs=2)
            pivot, row = g("Split", row, np.array([1, 2 * r - k - 1]), axis=2, outputs=2)
            own = g("Slice", row, np.array([r - k - 1]), np.array([2 * r]), np.array([2]))
            done.append(g("Div", own, g("Sqrt", pivot)))
            if rest is not None:
                column, rest = g("Split", rest, np.array([1, 2 * r - k - 1]), axis=2, outputs=2)
                A = g("Sub", rest, g("Mul", g("Div", column, pivot), row))
        return str(g("Concat", *done, axis=1))


def _em(g: Graph, step: _Step, C: str, log_gamma: str) -> str:
    """Return log γ after one plain EM iteration."""
    gamma = g("Exp", log_gamma)
    u, q = step(g, gamma, g("Add", C, HEAD_LAMBDA))
    factor = g("Add", g("Mul", gamma, g("Sub", g("Mul", u, u), q)), 1.0)
    return str(g("Max", g("Add", log_gamma, g("Log", g("Max", factor, 1e-4))), LOG_FLOOR))


@dataclass(frozen=True)
class _Learned:
    """One learned iteration: (log γ, state, logits) → the same, after it."""

    step: _Step
    C: str
    level: str
    log_total: str
    weights: Weights

    def __call__(self, g: Graph, iteration: str, log_gamma: str, h: str, _: str) -> list[str]:
        first, context, moments, last_layer, last_bias, log_lambda = (w.astype(np.float64) for w in self.weights)
        moment = g("Min", iteration, np.int64(len(moments) - 1))
        total = g("ReduceLogSumExp", log_gamma, np.array([1]))
        log_gamma = g("Max", g("Add", g("Sub", log_gamma, total), self.log_total), LOG_FLOOR)
        gamma = g("Exp", log_gamma)
        ridge = g("Gather", np.exp(log_lambda), moment, axis=0)
        u, q = self.step(g, gamma, g("Add", self.C, ridge))
        log_u, log_q = g("Log", g("Add", g("Mul", u, u), TINY)), g("Log", g("Add", q, TINY))
        features = [*(g("Mul", value, SCALE) for value in (log_gamma, log_u, log_q)), g("Mul", gamma, q)]
        last = np.array([2])
        inputs = g("Concat", *(g("Unsqueeze", value, last) for value in features), h, axis=2)
        means = g("ReduceMean", inputs, np.array([1]), keepdims=0)
        seen = g("MatMul", g("Concat", means, self.level, axis=1), context.T)
        bias = g("Add", seen, g("Gather", moments, moment, axis=0))
        hidden = g("Add", g("MatMul", inputs, first.T), g("Unsqueeze", bias, np.array([1])))
        gate = g("Min", g("Max", g("Add", hidden, 3.0), 0.0), 6.0)
        hidden = g("Div", g("Mul", hidden, gate), 6.0)
        out = g("Add", g("MatMul", hidden, last_layer.T), last_bias)
        delta, logits, change = g("Split", out, np.array([1, 1, len(last_bias) - 2]), axis=2, outputs=3)
        half = g("Mul", g("Sub", log_u, log_q), 0.5)
        log_gamma = g("Add", g("Add", log_gamma, half), g("Squeeze", delta, last))
        h = g("Add", h, change)
        h = g("Div", h, g("Sqrt", g("Add", g("Mul", h, h), 1.0)))
        return [log_gamma, h, g("Squeeze", logits, last)]
