"""Print the oldest versions that pyproject.toml allows, as constraints for pip: the base, and the extras named."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
lines = [*project["dependencies"], *(line for name in sys.argv[1:] for line in project["optional-dependencies"][name])]
for line in lines:
    name, oldest = re.match(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", line).groups()
    print(f"{name}=={oldest}")
