"""`python -m rsigym` is the command `rsigym`."""

import sys

from rsigym.cli import main

if __name__ == "__main__":
    sys.exit(main())
