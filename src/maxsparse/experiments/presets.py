"""The three sizes of every experiment."""

from __future__ import annotations

PRESETS = {
    "smoke": "seconds: tests that everything runs; its numbers are meaningless",
    "laptop": "minutes on two cores: the numbers of docs/results.md",
    "paper": "the paper's own protocol and sizes",
}
