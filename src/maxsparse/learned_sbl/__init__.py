"""Learned sparse Bayesian learning, the bundled network: one small network for every dictionary.

``spec`` defines the network: names and shapes of its weights, constants, checks. ``model`` is for training (torch),
``kernels`` for inference (numba), ``scores`` applies it to one dictionary, ``onnx`` exports it; ``tasks`` and ``train``
created the files in ``weights``.
"""

from maxsparse.learned_sbl.scores import LearnedScores
from maxsparse.learned_sbl.spec import Weights
from maxsparse.learned_sbl.weights import bundled_later, bundled_weights, read_weights

__all__ = ["LearnedScores", "Weights", "bundled_later", "bundled_weights", "read_weights"]
