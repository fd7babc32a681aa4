"""Networks for sparse recovery, by name: created from plain JSON, saved without code, trained by ``training``.

>>> import maxsparse as ms
>>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
>>> network = ms.networks.build("residual", Phi, width=64, depth=6, rng=0)
>>> X, Y = ms.signals.sample(Phi, 10, sparsity=2, rng=1)
>>> network.scores(Y).shape
(10, 100)

Add your own: a subclass of :class:`Network` (or of :class:`SignalNetwork`, which has ``scores``) whose constructor
takes JSON-serialisable keyword arguments, with ``@register("mine")`` before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from numpy.typing import ArrayLike

from maxsparse._core.extras import needs
from maxsparse._core.registry import NETWORKS
from maxsparse._core.validation import RandomState, check_dictionary, check_rng

with needs("a trained network"):
    import torch

from maxsparse.networks.network import Network, SignalNetwork
from maxsparse.networks.storage import Model, load, save
from maxsparse.networks.zoo import add_pretrained, pretrained, pretrained_names, zoo_folder

__all__ = [
    "NETWORKS",
    "Model",
    "Network",
    "SignalNetwork",
    "add_pretrained",
    "build",
    "create",
    "find",
    "load",
    "pretrained",
    "pretrained_names",
    "register",
    "save",
    "zoo_folder",
]


def register(name: str, network: type[Network] | None = None, *, summary: str | None = None) -> Any:
    """Register a network for :func:`create`, model files, ``maxsparse fit`` and the experiments.

    Parameters
    ----------
    name : str
        A name that is not in use.
    network : type or None
        Subclass of :class:`Network`. None makes this a class decorator.
    summary : str or None, default=None
        What it is, in one line; None takes the first line of its docstring.

    Returns
    -------
    network
        Unchanged.

    Notes
    -----
    Other packages declare networks as entry points of the group ``maxsparse.networks``.
    """
    return NETWORKS.register(name, network, summary=summary)


def find(name: str) -> type[Network]:
    """Return the class of a network.

    Parameters
    ----------
    name : str
        A name in :data:`NETWORKS`.

    Returns
    -------
    network : type
    """
    return cast(type[Network], NETWORKS.find(name))


def create(name: str, **hyperparameters: Any) -> Network:
    """Create a network from its name and hyperparameters, with weights from torch's generator.

    Parameters
    ----------
    name : str
        A name in :data:`NETWORKS`.
    **hyperparameters
        Keyword arguments of its class.

    Returns
    -------
    network : Network
    """
    network = find(name)
    check_hyperparameters(name, hyperparameters)
    try:
        return network(**hyperparameters)
    except TypeError as error:
        raise ValueError(f"network {name!r}: {error}") from error


def check_hyperparameters(name: str, given: Iterable[str], but: tuple[str, ...] = ()) -> None:
    """Raise an error for hyperparameters that a network does not have, or that are in `but`."""
    NETWORKS.check_options(name, given, hidden=but)


def build(
    name: str,
    Phi: ArrayLike,
    *,
    Y: ArrayLike | None = None,
    noise: float = 0.0,
    rng: RandomState = None,
    **hyperparameters: Any,
) -> SignalNetwork:
    """Create a network for a dictionary, ready for training.

    Parameters
    ----------
    name : str
        A name in :data:`NETWORKS` of a network for one dictionary.
    Phi : array-like of shape (n, m)
        Dictionary.
    Y : array-like of shape (N, n) or None, default=None
        Typical signals; the network scales its inputs by them.
    noise : float, default=0.0
        Noise on the signals relative to their root mean square, for whitening.
    rng : int, numpy.random.Generator or None, default=None
        Seed of the initial weights.
    **hyperparameters
        Keyword arguments of the network's class, without n and m.

    Returns
    -------
    network : SignalNetwork
    """
    dictionary = check_dictionary(Phi)
    n, m = dictionary.shape
    if not issubclass(find(name), SignalNetwork):
        raise ValueError(f"network {name!r} is not for one dictionary; use create()")
    check_hyperparameters(name, hyperparameters, but=("n", "m"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(check_rng(rng).integers(2**63)))
        network = cast(SignalNetwork, create(name, n=n, m=m, **hyperparameters))
    network.start_from(dictionary, Y, noise=noise)
    return network
