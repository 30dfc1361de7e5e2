"""`make demo-orders`: the books of a shop balance although its processes are killed."""

import subprocess
import sys

from tests.support.servers.processes import PROJECT


def test_the_books_balance() -> None:
    command = [sys.executable, "-m", "examples.orders", "--seconds", "12"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    lines = done.stdout.splitlines()
    assert lines[-1] == "the books balance"
    assert "killed:" in lines[1]
    books = {line.split()[0]: line.split()[1:] for line in lines if "orders " in line and line.split()[0] != "orders:"}
    assert books["orders"] == books["revenue"] == books["shipping"]
    assert int(books["orders"][0]) > 0
