"""A broker group is added in the console, and the command that the page shows starts its first node."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.served.e2e.preview_dialog import PreviewDialog
from tests.served.e2e.visits import Visits
from tests.support.servers.processes import PROJECT
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import Person
from tests.support.waiting import ASK_SECONDS, eventually

SECRET = "s" * 44
"""The node secret of the system."""


def test_the_shown_command_starts_the_first_node(browser: Browser, new_system: NewSystems, tmp_path: Path) -> None:
    system = new_system(groups=1, console=True, people=(Person("ada", "admin"),))
    for process in system.processes:
        process.set_environment(QMQ_NODE_TOKEN=SECRET)
    system.start()
    with closing(Visits(browser, system.url)) as visits:
        command = _add_group(visits)
        assert [line for one in visits.made for line in one.problems()] == []
    token = tmp_path / "node_token"
    token.write_text(SECRET)
    token.chmod(0o600)
    for place, here in {
        "/var/lib/qmq": str(tmp_path),
        "/etc/qmq/node_token": str(token),
        "ADDRESS": "127.0.0.1",
    }.items():
        assert place in command
        command = command.replace(place, here)
    # Other nodes of this machine have the default ports.
    command += " --port 0 --admin-port 0 --sync-port 0"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with open(tmp_path / "node.log", "wb") as log:
        node = subprocess.Popen(
            ["bash", "-c", command],
            cwd=PROJECT,
            env={**os.environ, "PATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def serves() -> bool:
        assert node.poll() is None, (tmp_path / "node.log").read_text()
        return bool(system.group("g7")["state"] == "read_write")

    try:
        eventually(serves, what="the group serves", every_s=ASK_SECONDS)
    finally:
        os.killpg(node.pid, signal.SIGTERM)
        node.wait(60)


def _add_group(new_visit: Visits) -> str:
    visit = new_visit(user="ada")
    visit.open("/brokers")
    page = PreviewDialog(visit)
    page.button("brokers:add.open").click()
    page.dialog.get_by_label(page.text("brokers:column.name")).fill("g7")
    page.preview()
    page.apply.click()
    shown = page.page.get_by_role("dialog", name=page.text("brokers:add.next", name="g7")).locator("pre, code").first
    expect(shown).to_contain_text("broker_node")
    return shown.inner_text()
