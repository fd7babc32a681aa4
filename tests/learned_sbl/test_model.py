import numpy as np
import pytest
import torch

from maxsparse import dictionaries, signals
from maxsparse._core.prepared import Prepared
from maxsparse.learned_sbl import model
from maxsparse.learned_sbl.model import LearnedSBL


@pytest.fixture(params=[0, 2], ids=["alone", "2 heads"])
def network(request):
    torch.manual_seed(0)
    net = LearnedSBL(iterations=5, state=3, hidden=8, heads=request.param)
    torch.nn.init.normal_(net.last.weight, std=0.1)
    return net


def whitened_signals(Phi, dictionary, N=6, sparsity=4, noise=0.0):
    _, Y = signals.sample(Phi, N, sparsity=sparsity, noise=noise, rng=1)
    return torch.tensor(Y @ dictionary.back, dtype=torch.float32)


def test_step_and_its_gradient_match_autograd_in_float64():
    Phi = dictionaries.decaying(9, 25, rng=0)
    dictionary = Prepared(Phi).form()
    Q32, outer = model._tensors(dictionary)
    generator = torch.Generator().manual_seed(0)
    gamma = torch.rand(4, 25, generator=generator).requires_grad_()
    c = (torch.rand(4, 9, generator=generator) + 0.1).requires_grad_()
    Z = torch.randn(4, 9, generator=generator)
    w_u, w_q = torch.randn(4, 25, generator=generator), torch.randn(4, 25, generator=generator)
    u, q, inverse = model._SblStep.apply(gamma, Z, c, Q32, outer)
    ours = torch.autograd.grad((u * w_u).sum() + (q * w_q).sum(), (gamma, c))

    Q = Q32.double()
    S_inverse = torch.linalg.inv(torch.einsum("nm,bm,km->bnk", Q, gamma.double(), Q) + torch.diag_embed(c.double()))
    u64 = torch.einsum("nm,bnk,bk->bm", Q, S_inverse, Z.double())
    q64 = torch.einsum("nm,bnk,km->bm", Q, S_inverse, Q)
    reference = torch.autograd.grad((u64 * w_u).sum() + (q64 * w_q).sum(), (gamma, c))
    torch.testing.assert_close(u.double(), u64, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(q.double(), q64, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(inverse.double(), S_inverse.detach(), rtol=1e-4, atol=1e-4)
    for got, expected in zip(ours, reference, strict=True):
        assert (got - expected).norm() < 1e-4 * expected.norm()


def test_attention_and_its_gradient_match_the_formula():
    Phi = dictionaries.decaying(9, 25, rng=0)
    dictionary = Prepared(Phi).form()
    Q32, outer = model._tensors(dictionary)
    generator = torch.Generator().manual_seed(0)
    gamma, a = torch.rand(4, 25, generator=generator), torch.rand(4, 2, 25, generator=generator).requires_grad_()
    c = torch.rand(4, 9, generator=generator) + 0.1
    _, q, inverse = model._SblStep.apply(gamma, torch.ones(4, 9), c, Q32, outer)
    heard = model._Attention.apply(a, gamma, q, inverse, outer)

    Q = Q32.double()
    S_inverse = torch.linalg.inv(torch.einsum("nm,bm,km->bnk", Q, gamma.double(), Q) + torch.diag_embed(c.double()))
    rho = torch.einsum("ni,bnk,kj->bij", Q, S_inverse, Q)
    weights = gamma[:, None] * rho**2 / torch.diagonal(rho, dim1=1, dim2=2)[:, :, None]
    assert (weights.sum(dim=2) < 1).all()  # averages, but for the noise
    expected = torch.einsum("bij,bkj->bki", weights, a.double())
    torch.testing.assert_close(heard.double(), expected, rtol=1e-3, atol=1e-4)
    probe = torch.randn(4, 2, 25, generator=generator)
    (ours,) = torch.autograd.grad((heard * probe).sum(), a, retain_graph=True)
    (reference,) = torch.autograd.grad((expected * probe).sum(), a)
    torch.testing.assert_close(ours, reference, rtol=1e-3, atol=1e-4)


def test_an_earlier_pass_is_seen_in_the_last_channel(network):
    Phi = dictionaries.gaussian(10, 24, rng=2)
    dictionary = Prepared(Phi).form()
    Z, earlier = whitened_signals(Phi, dictionary), torch.linspace(-20, 20, 6 * 24).view(6, 24)
    seen = []
    hook = network.first.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    with torch.no_grad():
        network(dictionary, Z, earlier=earlier)
    hook.remove()
    state = seen[0][:, :, model.FEATURES : model.FEATURES + 3]
    torch.testing.assert_close(state[:, :, -1], (earlier / 8).clamp(-1, 1))
    assert not state[:, :, :-1].any()


def test_the_order_of_atoms_does_not_matter(network):
    Phi = dictionaries.gaussian(10, 24, rng=2)
    order = np.random.default_rng(3).permutation(24)
    straight, shuffled = Prepared(Phi).form(), Prepared(np.ascontiguousarray(Phi[:, order])).form()
    with torch.no_grad():
        noise = torch.full((6,), 0.03)  # keeps S well conditioned: another order is another rounding
        a = network(straight, whitened_signals(Phi, straight), noise)[-1]
        _, Y = signals.sample(Phi, 6, sparsity=4, rng=1)
        b = network(shuffled, torch.tensor(Y @ shuffled.W.T, dtype=torch.float32), noise)[-1]
    torch.testing.assert_close(a[:, order.copy()], b, rtol=1e-2, atol=1e-2)


def test_scale_of_the_signal_does_not_matter(network):
    Phi = dictionaries.gaussian(10, 24, rng=2)
    dictionary = Prepared(Phi).form()
    Z = whitened_signals(Phi, dictionary)
    noise = torch.full((6,), 0.01)
    with torch.no_grad():
        torch.testing.assert_close(
            network(dictionary, Z, noise)[-1], network(dictionary, 1000 * Z, 1000 * noise)[-1], rtol=1e-3, atol=1e-3
        )


def test_untrained_it_is_sbl():
    """With the last layer at zero, the last γ must rank atoms as the convex SBL iteration in float64 does."""
    Phi = dictionaries.gaussian(12, 30, rng=4)
    dictionary = Prepared(Phi).form()
    Z = whitened_signals(Phi, dictionary, N=1, sparsity=2)
    net = LearnedSBL(iterations=3)
    seen = []
    hook = net.first.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0][0, :, 0] / 0.2))
    with torch.no_grad():
        net(dictionary, Z)
    hook.remove()
    Q, z = dictionary.Q, Z[0].double().numpy()
    z /= np.sqrt(np.mean(z**2))
    log_gamma = np.zeros(30)
    for _ in range(model.HEAD_START):
        S = (Q * np.exp(log_gamma)) @ Q.T + model.HEAD_LAMBDA * np.eye(12)
        u, q = Q.T @ np.linalg.solve(S, z), np.sum(Q * np.linalg.solve(S, Q), axis=0)
        log_gamma = np.maximum(log_gamma + np.log(np.maximum(1 + np.exp(log_gamma) * (u**2 - q), 1e-4)), -16)
    for t in range(3):
        log_gamma = np.maximum(log_gamma - np.log(np.exp(log_gamma).sum()) + np.log(12), -16)
        np.testing.assert_allclose(seen[t].numpy(), log_gamma, atol=2e-2)
        S = (Q * np.exp(log_gamma)) @ Q.T + np.exp(net.log_lambda[t].item()) * np.eye(12)
        u, q = Q.T @ np.linalg.solve(S, z), np.sum(Q * np.linalg.solve(S, Q), axis=0)
        log_gamma = log_gamma + 0.5 * (np.log(u**2 + 1e-8) - np.log(q + 1e-8))
