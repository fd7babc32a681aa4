"""The three sizes in which every experiment comes."""

from __future__ import annotations

PRESETS = {
    "smoke": "seconds: shows that everything runs; its numbers mean nothing",
    "laptop": "minutes on two cores: the numbers of docs/results.md",
    "paper": "the paper's own protocol and sizes",
}
