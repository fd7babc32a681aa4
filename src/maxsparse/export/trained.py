"""The ONNX graph of a network trained for one dictionary, by torch's exporter."""

from __future__ import annotations

import copy
import logging
import warnings
from typing import TYPE_CHECKING

from maxsparse._core.extras import needs

with needs("a trained network"):
    import torch
    from torch import Tensor, nn

from maxsparse.networks.batch_norm import fold
from maxsparse.networks.network import SignalNetwork
from maxsparse.networks.residual import Residual
from maxsparse.recovery.trained import TrainedScores

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["graph"]


class _Scores(nn.Module):
    """Signals in, scores out: preparation, network, and the calibration to log odds."""

    def __init__(self, scorer: TrainedScores) -> None:
        super().__init__()
        self.network = _without_batch_norm(copy.deepcopy(scorer.network).cpu().eval())
        self.gain, self.offset = scorer.gain, scorer.offset

    def forward(self, y: Tensor) -> Tensor:
        outputs = self.network(y)
        if self.network.output == "estimate":
            outputs = outputs.abs()
        scores: Tensor = outputs * self.gain + self.offset
        return scores


def graph(scorer: TrainedScores) -> ModelProto:
    """Return the graph of a network with input ``y`` (batch, n), float64, and output ``scores`` (batch, m)."""
    with needs("export of a trained network"):
        import onnxscript  # noqa: F401  (torch's exporter uses it)
    module = _Scores(scorer).eval()
    example = torch.ones(2, scorer.network.n, dtype=torch.float64)  # 0 or 1 rows would be treated as constants
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # deprecations inside torch
        logger.setLevel(logging.ERROR)  # it warns about torchvision, which no network here uses
        program = torch.onnx.export(
            module,
            (example,),
            input_names=["y"],
            output_names=["scores"],
            dynamic_shapes={"y": {0: torch.export.Dim("batch", max=2**40)}},  # torch 2.7 fails without a limit
            dynamo=True,
            verbose=False,
        )
    logger.setLevel(level)
    assert program is not None
    return program.model_proto


def _without_batch_norm(network: SignalNetwork) -> SignalNetwork:
    """Fold batch normalisation into the linear layers, so that quantisation applies to the actual factors."""
    if isinstance(network, Residual):
        for position, (layer, norm) in enumerate(zip(network.layers, network.norms, strict=True)):
            weight, bias = fold(layer, norm)  # type: ignore[arg-type]  # ModuleList forgets
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.weight.data, linear.bias.data = weight, bias
            network.layers[position], network.norms[position] = linear, nn.Identity()
    return network
