"""``python -m cleaner``."""

import sys

from cleaner.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
