"""Networks for sparse recovery, by name: created from plain JSON, saved without code, trained by ``training``.

>>> import maxsparse as ms
>>> Phi = ms.dictionaries.decaying(20, 100, rng=0)
>>> network = ms.networks.build("residual", Phi, width=64, depth=6, rng=0)
>>> X, Y = ms.signals.sample(Phi, 10, sparsity=2, rng=1)
>>> network.scores(Y).shape
(10, 100)

Add your own: a subclass of :class:`Network` (or of :class:`SignalNetwork`, which has ``scores``) whose constructor
takes JSON-serialisable keyword arguments, and ``register("mine", Mine)``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from typing import Any, cast

from numpy.typing import ArrayLike

from maxsparse._core.extras import needs
from maxsparse._core.validation import RandomState, check_choice, check_dictionary, check_rng

with needs("a trained network"):
    import torch

from maxsparse.networks.iht_net import IHTNet
from maxsparse.networks.ista_net import ISTANet
from maxsparse.networks.lstm import LSTM
from maxsparse.networks.network import Network, SignalNetwork
from maxsparse.networks.residual import Residual
from maxsparse.networks.storage import Model, load, save

__all__ = ["NETWORKS", "Model", "Network", "SignalNetwork", "build", "create", "find", "load", "register", "save"]

# A class, or "module:class" where the class is in a part that builds on this one; it is imported when first used.
NETWORKS: dict[str, type[Network] | str] = {}


def register(name: str, network: type[Network]) -> None:
    """Register a network for :func:`create`, model files and ``maxsparse fit``.

    Parameters
    ----------
    name : str
        A name that is not in use.
    network : type
        Subclass of :class:`Network`.
    """
    if name in NETWORKS:
        raise ValueError(f"a network named {name!r} already exists; choose another name")
    network.name = name
    NETWORKS[name] = network


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
    found = NETWORKS[check_choice(name, "network", tuple(NETWORKS))]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        made: type[Network] = getattr(importlib.import_module(module), attribute)
        made.name, NETWORKS[name] = name, made
        return made
    return found


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
    parameters = inspect.signature(find(name)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [parameter for parameter in parameters if parameter not in but]
    for hyperparameter in given:
        if hyperparameter not in known:
            raise ValueError(
                f"network {name!r} has no hyperparameter {hyperparameter!r} to set; use one of {', '.join(known)}"
            )


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


register("residual", Residual)
register("ista_net", ISTANet)
register("iht_net", IHTNet)
register("lstm", LSTM)
NETWORKS["learned_sbl"] = "maxsparse.learned_sbl.model:LearnedSBL"
