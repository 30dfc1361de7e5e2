"""The generator of random numbers that clients share."""

import subprocess
import sys

PRINTS_CHOICES = """
import os
from qmq.clock import SYSTEM_RANDOM
for _ in range(2):
    if os.fork() == 0:
        print(SYSTEM_RANDOM.random(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_forks_of_a_process_make_different_choices() -> None:
    done = subprocess.run([sys.executable, "-c", PRINTS_CHOICES], capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    assert first != second
