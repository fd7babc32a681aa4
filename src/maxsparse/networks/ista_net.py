"""ISTA-Net: iterative soft thresholding with learned matrices and thresholds (LISTA)."""

from __future__ import annotations

from torch import Tensor

from maxsparse._core.registry import NETWORKS
from maxsparse.networks.activations import soft_threshold
from maxsparse.networks.unrolled import UnrolledNetwork

__all__ = ["ISTANet"]


@NETWORKS.register(
    "ista_net", summary="the paper's rival: unfolded ISTA with learned matrices", needs=["training"], order=11
)
class ISTANet(UnrolledNetwork):
    r"""Layers of ISTA; before training it is exactly ISTA.

    .. math:: x_{t+1} = \mathrm{soft}_\theta(\Psi x_t + \Gamma y), \qquad x_0 = 0

    Parameters
    ----------
    n, m : int
        Measurements and atoms.
    depth : int, default=20
        Number of layers.
    tied : bool, default=True
        The same Ψ, Γ and θ in every layer, as in the paper; False gives every layer its own.
    theta : float, default=0.001
        Initial threshold. It is ISTA for :math:`\min \frac12\|y - \Phi x\|_2^2 + \lambda\|x\|_1` with
        :math:`\lambda = \theta \|\Phi\|_2^2`.
    whiten : bool, default=False
        Whiten the signals first; ISTA then runs on WΦD.
    output : {"estimate", "logits"}, default="estimate"
        ``"estimate"`` is trained by least squares on x*, as in the paper; ``"logits"`` by a classification loss.

    Notes
    -----
    Learned ISTA is due to Gregor and LeCun [1]_.

    References
    ----------
    .. [1] K. Gregor, Y. LeCun, "Learning fast approximations of sparse coding", ICML 2010.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 50, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 100, sparsity=1, rng=1)
    >>> untrained = ms.networks.build("ista_net", Phi, theta=0.01, depth=100)
    >>> ms.metrics.strict_accuracy(X, untrained.scores(Y)) > 0.95
    True
    """

    learning_rate = 1e-3  # three times as much diverges after some million signals

    def __init__(
        self,
        *,
        n: int,
        m: int,
        depth: int = 20,
        tied: bool = True,
        theta: float = 0.001,
        whiten: bool = False,
        output: str = "estimate",
    ) -> None:
        super().__init__(n=n, m=m, depth=depth, tied=tied, theta=theta, whiten=whiten, output=output)

    def threshold(self, x: Tensor, theta: Tensor) -> Tensor:
        """Shrink x (B, m) by θ (m,)."""
        return soft_threshold(x, theta)
