"""A small writer of ONNX graphs: nodes get unique names, numpy arrays become constants."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

__all__ = ["OPSET", "Graph"]

OPSET = 18
Value = str | float | np.generic | NDArray[Any]


class Graph:
    """A graph of nodes in the order of creation. Floats are float64."""

    def __init__(self, outer: Graph | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        # Constants of a loop body are outside of it, so that they are stored and loaded once.
        self.constants: dict[str, onnx.TensorProto] = {} if outer is None else outer.constants
        self._numbers: itertools.count[int] = itertools.count() if outer is None else outer._numbers

    def __call__(self, operator: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its output, or a list of names if it has several."""
        number = next(self._numbers)
        names = [f"{operator.lower()}_{number}_{k}" for k in range(outputs)]
        inputs_by_name = [self.constant(value) for value in inputs]
        self.nodes.append(helper.make_node(operator, inputs_by_name, names, f"{operator}_{number}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Value) -> str:
        """Return the name of a value; numbers and arrays become constants, each stored once."""
        if isinstance(value, str):
            return value
        array = np.asarray(value)
        key = f"constant_{array.dtype}_{array.shape}_{hash(array.tobytes()) & (2**64 - 1):x}".replace(" ", "")
        self.constants.setdefault(key, numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), key))
        return key

    def loop(self, times: int, body: Any, *states: str) -> list[str]:
        """Add a loop of ``body(graph, iteration, *states) -> states``; return the last states."""
        inner = Graph(self)
        number = next(self._numbers)
        given = [f"state_{number}_{k}" for k in range(len(states))]
        iteration, condition = f"iteration_{number}", f"go_{number}"
        after = [inner("Identity", value) for value in body(inner, iteration, *given)]
        proceed = inner("Identity", condition)
        heads = [
            helper.make_tensor_value_info(iteration, TensorProto.INT64, []),
            helper.make_tensor_value_info(condition, TensorProto.BOOL, []),
            *(helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in given),
        ]
        tails = [
            helper.make_tensor_value_info(proceed, TensorProto.BOOL, []),
            *(helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in after),
        ]
        graph = helper.make_graph(inner.nodes, f"body_{number}", heads, tails)
        found = self("Loop", np.int64(times), np.bool_(True), *states, outputs=len(states), body=graph)
        return [found] if len(states) == 1 else found

    def model(self, name: str, inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
        """Return the graph as a model."""
        graph = helper.make_graph(self.nodes, name, inputs, outputs, list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
