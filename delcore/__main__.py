"""`python -m delcore`, for launchers such as `accelerate launch -m delcore train …`."""

import sys

from delcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
