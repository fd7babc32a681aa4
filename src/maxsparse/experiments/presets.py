"""The four sizes of every experiment."""

from __future__ import annotations

PRESETS = {
    "smoke": "seconds: tests that everything runs; its numbers are meaningless",
    "laptop": "minutes on two cores: small networks, trained for a minute",
    "day": "networks as deep as the paper's: pretrained ones are used, --train trains them again, for hours",
    "paper": "the paper's own protocol and sizes",
}
