"""IHT-Net: iterative hard thresholding with learned matrices and continuous thresholds."""

from __future__ import annotations

from torch import Tensor

from maxsparse._core.registry import NETWORKS
from maxsparse._core.validation import check_number
from maxsparse.networks.activations import helu
from maxsparse.networks.unrolled import UnrolledNetwork

__all__ = ["IHTNet"]


@NETWORKS.register(
    "iht_net", summary="the paper's rival: unfolded IHT with learned matrices", needs=["training"], order=12
)
class IHTNet(UnrolledNetwork):
    r"""Layers of hard thresholding, with HELU_σ in place of the jump.

    .. math:: x_{t+1} = \theta \odot \mathrm{HELU}_\sigma\big((\Psi x_t + \Gamma y) / \theta\big), \qquad x_0 = 0

    Parameters
    ----------
    n, m : int
        Measurements and atoms.
    depth : int, default=20
        Number of layers.
    tied : bool, default=True
        The same Ψ, Γ and θ in every layer, as in the paper; False gives every layer its own.
    theta : float, default=0.001
        Initial threshold. The input of the first layer is :math:`\Phi^\top y / \|\Phi\|_2^2`, which is small for
        coherent atoms: entries that are zeroed at the start remain zero.
    sigma : float, default=0.2
        Width of the ramp, relative to θ.
    whiten : bool, default=False
        Whiten the signals first; IHT then runs on WΦD.
    output : {"estimate", "logits"}, default="estimate"
        ``"estimate"`` is trained by least squares on x*, as in the paper; ``"logits"`` by a classification loss.

    Notes
    -----
    This is the deep ℓ0 encoder of Wang et al. [1]_: the iteration for the ℓ0 penalty, with a threshold, because the
    number k of nonzeros is not given to a network.

    References
    ----------
    .. [1] Z. Wang, Q. Ling, T. Huang, "Learning deep ℓ0 encoders", AAAI 2016.

    Examples
    --------
    >>> import maxsparse as ms
    >>> Phi = ms.dictionaries.gaussian(20, 50, rng=0)
    >>> X, Y = ms.signals.sample(Phi, 100, sparsity=1, rng=1)
    >>> untrained = ms.networks.build("iht_net", Phi, theta=0.02, depth=200)
    >>> ms.metrics.strict_accuracy(X, untrained.scores(Y)) > 0.9
    True
    """

    def __init__(
        self,
        *,
        n: int,
        m: int,
        depth: int = 20,
        tied: bool = True,
        theta: float = 0.001,
        sigma: float = 0.2,
        whiten: bool = False,
        output: str = "estimate",
    ) -> None:
        super().__init__(n=n, m=m, depth=depth, tied=tied, theta=theta, sigma=sigma, whiten=whiten, output=output)
        self.sigma = check_number(sigma, "sigma", low=1e-6, high=1.0)

    def threshold(self, x: Tensor, theta: Tensor) -> Tensor:
        """Set entries below θ (m,) to zero, with a ramp."""
        return theta * helu(x / theta, self.sigma)
