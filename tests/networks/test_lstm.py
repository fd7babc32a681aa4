"""Recurrent networks against torch's own, and against the formulas of gated feedback written out."""

import numpy as np
import pytest
import torch
from torch import nn

import maxsparse as ms

PHI = ms.dictionaries.gaussian(6, 10, rng=0)
_, Y = ms.signals.sample(PHI, 12, sparsity=2, rng=1)
HIDDEN, STEPS = 5, 4


def build(cell, feedback=False):
    return ms.networks.build(
        "lstm", PHI, hidden=HIDDEN, steps=STEPS, cell=cell, feedback=feedback, whiten=False, rng=3
    ).eval()


def repeated():
    return torch.from_numpy(Y).float()[:, None, :].expand(-1, STEPS, -1)


def head(network, outputs):
    return network.last(outputs.reshape(len(Y), -1))


@torch.no_grad()
def test_lstm_is_torchs():
    network = build("lstm")
    reference = nn.LSTM(6, HIDDEN, 2, batch_first=True)
    # torch orders the rows input, forget, candidate, output; here the candidate is last.
    order = torch.cat(
        [torch.arange(2 * HIDDEN), torch.arange(3 * HIDDEN, 4 * HIDDEN), torch.arange(2 * HIDDEN, 3 * HIDDEN)]
    )
    order = torch.argsort(order)
    for layer, cell in enumerate(network.cells):
        getattr(reference, f"weight_ih_l{layer}").copy_(cell.inputs.weight[order])
        getattr(reference, f"weight_hh_l{layer}").copy_(cell.recurrent.weight[order])
        getattr(reference, f"bias_ih_l{layer}").copy_(cell.inputs.bias[order])
        getattr(reference, f"bias_hh_l{layer}").zero_()
    expected = head(network, reference(repeated())[0])
    torch.testing.assert_close(network(torch.from_numpy(Y)), expected, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_gru_is_torchs():
    network = build("gru")
    reference = nn.GRU(6, HIDDEN, 2, batch_first=True)
    for layer, cell in enumerate(network.cells):
        getattr(reference, f"weight_ih_l{layer}").copy_(cell.inputs.weight)
        getattr(reference, f"weight_hh_l{layer}").copy_(cell.recurrent.weight)
        getattr(reference, f"bias_ih_l{layer}").copy_(cell.inputs.bias)
        getattr(reference, f"bias_hh_l{layer}").copy_(cell.recurrent.bias)
    expected = head(network, reference(repeated())[0])
    torch.testing.assert_close(network(torch.from_numpy(Y)), expected, atol=1e-6, rtol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def feedback_by_hand(cell, below, before):
    """Sum over layers i of g^{i→j} U^{i→j} h^i, one signal at a time."""
    weight = {name: value.detach().double().numpy() for name, value in cell.feedback.named_parameters()}
    total = np.zeros((len(below), HIDDEN))
    for row in range(len(below)):
        everything = np.concatenate([h[row] for h in before])
        for i, h in enumerate(before):
            gate = sigmoid(
                weight["gates_below.weight"][i] @ below[row]
                + weight["gates_below.bias"][i]
                + weight["gates_before.weight"][i] @ everything
            )
            U = weight["from_layers.weight"][:, i * HIDDEN : (i + 1) * HIDDEN]
            total[row] += gate * (U @ h[row])
    return total


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_gated_feedback_by_hand(kind):
    network = build(kind, feedback=True)
    h = [np.zeros((len(Y), HIDDEN)) for _ in range(2)]
    c = [np.zeros((len(Y), HIDDEN)) for _ in range(2)]
    top = []
    for _ in range(STEPS):
        before, below = [value.copy() for value in h], Y
        for j, cell in enumerate(network.cells):
            weight = {name: value.detach().double().numpy() for name, value in cell.named_parameters()}
            driven = below @ weight["inputs.weight"].T + weight["inputs.bias"]
            recurrent = before[j] @ weight["recurrent.weight"].T + weight.get("recurrent.bias", 0.0)
            back = feedback_by_hand(cell, below, before)
            if kind == "lstm":
                i, f, o = np.split(sigmoid(driven[:, : 3 * HIDDEN] + recurrent), 3, axis=1)
                c[j] = f * c[j] + i * np.tanh(driven[:, 3 * HIDDEN :] + back)
                h[j] = o * np.tanh(c[j])
            else:
                r, z = np.split(sigmoid(driven[:, : 2 * HIDDEN] + recurrent), 2, axis=1)
                h[j] = z * before[j] + (1 - z) * np.tanh(driven[:, 2 * HIDDEN :] + r * back)
            below = h[j]
        top.append(below)
    last = network.last
    expected = np.concatenate(top, 1) @ last.weight.detach().double().numpy().T + last.bias.detach().double().numpy()
    np.testing.assert_allclose(network.scores(Y), expected, atol=1e-5)


def test_default_layout_is_the_follow_ups():
    network = ms.networks.create("lstm", n=20, m=100)
    assert len(network.cells) == 2
    assert network.last.in_features == 11 * 425
