"""The cost of 8-bit layers: accuracy and size of an exported network, before and after.

python benchmarks/export.py zoo/residual-20x100.safetensors
Fills results/export.json. The signals are new ones of the model's dictionary, the same for both files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import maxsparse as ms

RESULTS = Path(__file__).parent / "results" / "export.json"


def measure(model):
    """Export a model twice, and return what both files are and reach."""
    stored = ms.networks.load(model)
    with tempfile.TemporaryDirectory() as folder:
        plain = ms.export.to_onnx(model, Path(folder) / "plain.onnx")
        small = ms.export.to_onnx(model, Path(folder) / "int8.onnx", int8=True)
    return {
        "command": f"python benchmarks/export.py {model}",
        "network": stored.network.name,
        "hyperparameters": stored.network.hyperparameters,
        "training samples": stored.about["report"]["samples"],
        "bytes": {"float32": plain.size, "int8": small.size},
        "largest difference from the model": plain.error,
        "strict accuracy by d": {str(d): {"model": a, "int8": b} for d, (a, b) in small.accuracy.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    figures = measure(options.model)
    options.results.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
