"""``python -m maxsparse`` is the command ``maxsparse``."""

from maxsparse.cli import main

if __name__ == "__main__":
    main()
