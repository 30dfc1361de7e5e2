"""Failures of a whole broker group, and what the overview shows of each: an alert and an event, both with the cause."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

from tests.support.disks.faulty_disks import Disks
from tests.support.servers.system import System

MESSAGES = 1_000
"""Sent while a disk hangs: each broker group of a test gets some of them."""
OFFLINE = "Broker group offline"
STUCK = "Disk does not complete writes"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a broker group with one node.

    `cause` is a pattern of the alert's sentence, `event` one of a sentence in the list of events.
    """

    name: str
    rule: str
    cause: str
    event: str

    def alert_on(self, page: Page, group: str) -> Locator:
        """Return the line of the alert with its cause on the overview."""
        lines = page.locator("[data-alert][data-severity=critical]")
        target = group if self.rule == OFFLINE else f"{group}-a"
        line = lines.filter(has_text=self.rule).filter(has=page.get_by_text(target, exact=True))
        return line.locator("[data-cause]").filter(has_text=re.compile(self.cause.format(node=f"{group}-a")))

    def event_on(self, page: Page, group: str) -> Locator:
        """Return the event with its cause on the overview."""
        return page.locator("[data-event]").filter(has_text=re.compile(self.event.format(node=f"{group}-a")))

    def is_shown(self, page: Page, group: str, timeout_ms: float) -> None:
        """Expect both on the overview."""
        expect(self.alert_on(page, group)).to_be_visible(timeout=timeout_ms)
        expect(self.event_on(page, group).first).to_be_visible(timeout=timeout_ms)


def _silent(name: str, why: str) -> Failure:
    cause = rf"^node {{node}} has not responded for [\d.]+ s: {why}$"
    return Failure(name, OFFLINE, cause, rf"Node {{node}} does not respond: {why}")


KILLED = _silent("killed", "connection refused")
PAUSED = _silent("paused", r"no response within 0\.75 s")
CUT_OFF = _silent("cut off", r"no response within 0\.75 s")
DISK_HANGS = Failure(
    "disk hangs", STUCK, r"^the disk has not completed a write for [\d.]+ s$",
    r"{node} .*: read only: the disk has not completed a write for [\d.]+ s",
)  # fmt: skip
FAILURES = (KILLED, PAUSED, CUT_OFF, DISK_HANGS)


@contextlib.contextmanager
def failing(failure: Failure, system: System, group: str, disks: Disks) -> Iterator[None]:
    """Let a broker group of a system fail inside the block, except for CUT_OFF; a killed one stays away until it is started."""
    process, node = system.brokers[group], f"{group}-a"
    if failure is KILLED:
        process.kill()
        yield
    elif failure is PAUSED:
        with process.paused():
            yield
    else:
        assert failure is DISK_HANGS
        disks.hang(node)
        # A disk is noticed to hang by what waits for it.
        system.qmq_soon("produce", "orders", "--count", str(MESSAGES))
        try:
            yield
        finally:
            disks.delay(node, 0)
