"""Entry point: ``python -m wavecast.cli`` and the ``wavecast`` script."""

from __future__ import annotations

import sys

from wavecast.cli.app import run


def main() -> None:
    """Run the command line on ``sys.argv`` and exit with its code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
