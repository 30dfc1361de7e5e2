"""The limit of open files. Limits belong to a process, so each case has a process of its own."""

import subprocess
import sys

import pytest

CODE = """
import logging, resource, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout)
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
{call}
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
USUAL_FILES_MAX = 16_384
"""A hard limit that a machine has without any setup, or more."""
RAISE = "from qmq.net.open_files import raise_open_files_limit; print(raise_open_files_limit(400))"
BUDGET = "from qmq.net.open_files import file_budget; print(file_budget(20_000).connections)"
CONSOLE = "from console.http.protocol import connections_max; print(connections_max())"
LAUNCHER = """
import django, os, tempfile
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
os.environ["QMQ_REDIS_URL"] = "redis://127.0.0.1:1/0"
django.setup()
from console.launcher.programs import Ports
from console.launcher.system import Launcher
from tests.support.servers.ports import free_ports
from tests.support.servers.up import PORTS
with tempfile.TemporaryDirectory() as folder:
    Launcher(folder, Ports.choose(free_ports(PORTS))).check()
"""


def lines(call: str, soft: int, hard: int) -> list[str]:
    code = CODE.format(soft=soft, hard=hard, call=call)
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()


def test_the_soft_limit_becomes_the_hard_one() -> None:
    assert lines(RAISE, 128, 512) == ["512", "512 512"]


def test_a_limit_that_stays_low_is_logged() -> None:
    warning, *rest = lines(RAISE, 128, 256)
    assert warning == (
        "only 256 files may be open, 400 are wanted: fewer connections are served at a time; raise `ulimit -Hn`"
    )
    assert rest == ["256", "256 256"]


@pytest.mark.parametrize(("call", "connections"), [(BUDGET, "128"), (CONSOLE, "128")])
def test_connections_leave_files_to_everything_else(call: str, connections: str) -> None:
    warning, found, limits = lines(call, 64, 256)
    assert "256 files may be open" in warning
    assert (found, limits) == (connections, "256 256")


@pytest.mark.parametrize(
    "options",
    ["metaserver.options.MetaOptions", "broker_node.options.BrokerOptions", "delay_node.options.DelayOptions"],
)
def test_the_default_number_of_connections_needs_no_higher_limit_than_usual(options: str) -> None:
    module = options.rpartition(".")[0]
    call = f"import {module}; from qmq.net.open_files import file_budget; wanted = {options}.connections_max"
    call += "; print(file_budget(wanted).connections == wanted)"
    assert lines(call, 1024, USUAL_FILES_MAX) == ["True", f"{USUAL_FILES_MAX} {USUAL_FILES_MAX}"], "no warning"


def test_the_launcher_raises_it_for_all_its_processes() -> None:
    assert lines(LAUNCHER, 256, 512)[-1] == "512 512"
