"""No port is given out twice. These tests draw from ranges below that of the other tests, which may run beside them."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import NoFreePort, PortPool
from tests.support.processes import PROJECT

DRAWS_ALL = """
import sys
from pathlib import Path
from tests.support.ports import NoFreePort, PortPool
pool = PortPool(range(8_000, 9_000), Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        print(pool.draw(), flush=True)
except NoFreePort:
    print("exhausted", flush=True)
sys.stdin.read()
"""


def test_five_thousand_draws_hold_no_duplicate(tmp_path: Path) -> None:
    pool = PortPool(range(2_000, 8_000), tmp_path / "locks")
    drawn = [pool.draw() for _ in range(5000)]
    assert len(set(drawn)) == 5000


def test_two_processes_share_no_port(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", DRAWS_ALL, str(tmp_path / "locks")],
            cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("draw\n")
            worker.stdin.flush()
        drawn: list[str] = []
        for worker in workers:
            # Both are alive, and hold what they drew, until both have exhausted the range.
            assert worker.stdout is not None
            drawn += iter(worker.stdout.readline, "exhausted\n")
        assert len(set(drawn)) == len(drawn)
        assert len(drawn) > 900
    finally:
        for worker in workers:
            worker.communicate(timeout=60)


def test_ports_of_a_process_that_ended_are_given_out_again(tmp_path: Path) -> None:
    worker = subprocess.run(
        [sys.executable, "-c", DRAWS_ALL, str(tmp_path / "locks")],
        cwd=PROJECT, input="draw\n", capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    port = int(worker.stdout.split()[1])
    assert PortPool(range(port, port + 1), tmp_path / "locks").draw() == port


def test_exhaustion_names_the_range(tmp_path: Path) -> None:
    pool = PortPool(range(9_100, 9_103), tmp_path / "locks")
    with socket.create_server(("127.0.0.1", 9_101)):
        assert {pool.draw(), pool.draw()} == {9_100, 9_102}
        with pytest.raises(NoFreePort, match=r"no 1 consecutive free ports in 9100-9102: this process has drawn 3"):
            pool.draw()


def test_ports_in_a_row(tmp_path: Path) -> None:
    pool = PortPool(range(9_200, 9_220), tmp_path / "locks")
    with socket.create_server(("127.0.0.1", 9_204)):
        assert pool.draw(10) in range(9_205, 9_211)
        with pytest.raises(NoFreePort, match="no 10 consecutive"):
            pool.draw(10)
