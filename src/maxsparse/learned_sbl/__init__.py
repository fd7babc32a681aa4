"""Learned sparse Bayesian learning, the bundled network: one small network for every dictionary.

``spec`` says what the network is: names and shapes of its weights, constants, the checks. ``model`` trains it (torch),
``kernels`` run it (numba), ``scores`` put it to work on one dictionary, ``onnx`` writes it for other programs;
``tasks`` and ``train`` made the files in ``weights``.
"""

from maxsparse.learned_sbl.scores import LearnedScores
from maxsparse.learned_sbl.spec import Weights
from maxsparse.learned_sbl.weights import bundled_later, bundled_weights, read_weights

__all__ = ["LearnedScores", "Weights", "bundled_later", "bundled_weights", "read_weights"]
