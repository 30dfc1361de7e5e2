"""`python -m qmq.cli`."""

import sys

from qmq.cli import main

sys.exit(main())
