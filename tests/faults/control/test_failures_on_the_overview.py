"""A whole broker group fails in each way: how long it takes until a browser shows alert and event with the cause.

Nodes are in network namespaces, so that they can be cut off, which needs root. The browser is in that of the console.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.faults.replication.network import CLIENTS, META, Network, NetworkSystem, require_namespaces
from tests.faults.replication.scene import TURNS
from tests.support.console.broker_failures import CUT_OFF, FAILURES, Failure, failing
from tests.support.console.browser import BrowserMissing, Visit, chromium, visit
from tests.support.console.people import PASSWORD
from tests.support.disks.faulty_disks import MODULE, Disks
from tests.support.required import missing
from tests.support.servers.system import WHOLE, Person
from tests.support.waiting import ASK_SECONDS, eventually, figure
from tests.support.whole import in_whole_fault_runs

LIMIT_SECONDS = 10.0
SEEN_MS = 60_000.0
GROUP = "g1"


class Scene:
    """A system in a network, and a page with its overview."""

    def __init__(self, system: NetworkSystem, disks: Disks, looking: Visit) -> None:
        self.system, self.disks, self.looking = system, disks, looking

    @contextlib.contextmanager
    def failing(self, failure: Failure) -> Iterator[None]:
        """Let the broker group fail inside the block."""
        if failure is not CUT_OFF:
            with failing(failure, self.system, GROUP, self.disks):
                yield
            return
        others = (CLIENTS, META)
        pairs = [*((GROUP, other) for other in others), *((other, GROUP) for other in others)]
        with self.system.network.lost(*pairs):
            yield

    def whole_again(self) -> None:
        """Wait until no alert is left."""
        if not self.system.brokers[GROUP].is_running:
            self.system.brokers[GROUP].start()
        expect(self.looking.page.locator("[data-alert]")).to_have_count(0, timeout=SEEN_MS)
        eventually(lambda: self.system.group(GROUP)["state"] == "read_write", every_s=ASK_SECONDS)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    require_namespaces()
    folder = tmp_path_factory.mktemp("failures")
    parts: dict[str, Any] = {**WHOLE, "delays": 0, "people": (Person("vera", "viewer"),)}
    with (
        Network([META, GROUP]) as network,
        NetworkSystem(folder, network, groups=1, broker_module=MODULE, **parts) as system,
        _browser() as browser,
    ):
        disks = Disks(system)
        system.start()
        assert system.qmq("produce", "orders", "-p", "id=1").returncode == 0
        looking = visit(browser, system.url)
        looking.sign_in("vera", PASSWORD)
        looking.open("/")
        yield Scene(system, disks, looking)
        looking.close()


@contextlib.contextmanager
def _browser() -> Iterator[Browser]:
    try:
        with chromium() as found:
            yield found
    except BrowserMissing as error:
        missing(str(error))


@pytest.mark.timeout(200 + TURNS * 90)
@pytest.mark.parametrize(
    "failure",
    [pytest.param(one, marks=() if one is CUT_OFF else in_whole_fault_runs, id=one.name) for one in FAILURES],
)
def test_the_overview_shows_alert_and_event_with_the_cause(scene: Scene, failure: Failure) -> None:
    for _ in range(TURNS):
        began = time.monotonic()
        with scene.failing(failure):
            failure.is_shown(scene.looking.page, GROUP, SEEN_MS)
            figure(f"alert and event of {failure.name}", time.monotonic() - began, LIMIT_SECONDS)
        scene.whole_again()
