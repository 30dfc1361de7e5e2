"""What a page costs in Chromium: its requests, its bytes, its layout shift, its first content, and the main thread at rest."""

from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import CDPSession, Page

LAYOUT_SHIFT_MAX = 0.02
REQUESTS_MAX = 42
BYTES_MAX = 280_000

_OBSERVE = """
window.layoutShifts = [];
const rect = ({x, y, width, height}) => [x, y, width, height].map(Math.round).join(" ");
const describe = ({node, previousRect, currentRect}) => {
    const element = node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement;
    const tag = element ? `${element.tagName.toLowerCase()}.${element.className}` : "a removed node";
    return `${tag} "${element?.innerText?.slice(0, 40).replace(/\\s+/g, " ")}": ${rect(previousRect)} -> ${rect(currentRect)}`;
};
new PerformanceObserver((list) => {
    for (const {value, startTime, hadRecentInput, sources} of list.getEntries())
        if (!hadRecentInput) window.layoutShifts.push({value, at: startTime, sources: sources.map(describe)});
}).observe({type: "layout-shift", buffered: true});
"""
_FIRST_CONTENT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_WINDOW_MS, _GAP_MS = 5_000, 1_000
"""Layout shift counts in windows: shifts less than a second apart, five seconds at most."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Parts of a page that moved in one frame."""

    value: float
    at_ms: float
    sources: tuple[str, ...]
    """The largest parts that moved: element, text, the rectangles before and after."""


@dataclass(frozen=True, slots=True)
class PageLoad:
    """The cost of a page since it was opened."""

    requests: dict[str, int] = field(hash=False)
    """Address to bytes as transferred, headers included."""
    count: int
    """Of the requests; an address that is read twice counts twice."""
    shifts: tuple[Shift, ...]
    first_content_ms: float | None

    @property
    def bytes(self) -> int:
        """All that was transferred."""
        return sum(self.requests.values())

    @property
    def layout_shift(self) -> float:
        """Cumulative layout shift: the largest sum of a window of shifts."""
        largest = current = 0.0
        began = last = float("-inf")
        for shift in self.shifts:
            if shift.at_ms - last > _GAP_MS or shift.at_ms - began > _WINDOW_MS:
                current, began = 0.0, shift.at_ms
            current, last = current + shift.value, shift.at_ms
            largest = max(largest, current)
        return largest


class Meter:
    """Measures the loads of a page; created before the page is opened.

    Each load after `reset` is a cold one: the browser keeps nothing of earlier ones.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._addresses: dict[str, str] = {}
        self._bytes: dict[str, int] = {}
        self._count = 0
        page.add_init_script(_OBSERVE)
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.on("Network.requestWillBeSent", self._on_request)
        self._session.on("Network.loadingFinished", self._on_finished)
        self._session.send("Network.enable")
        self._session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        self._session.send("Performance.enable")

    def reset(self) -> None:
        """Forget the load before."""
        self._addresses.clear()
        self._bytes.clear()
        self._count = 0

    def load(self) -> PageLoad:
        """What the page has cost so far."""
        shifts: list[dict[str, Any]] = self._page.evaluate("window.layoutShifts")
        return PageLoad(
            requests=dict(self._bytes),
            count=self._count,
            shifts=tuple(Shift(one["value"], one["at"], tuple(one["sources"])) for one in shifts),
            first_content_ms=self._page.evaluate(_FIRST_CONTENT),
        )

    def main_thread_seconds(self) -> float:
        """Processor time of the page's main thread so far (TaskDuration includes waiting for one)."""
        metrics: list[dict[str, Any]] = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "ThreadTime"))

    def _on_request(self, event: dict[str, Any]) -> None:
        address: str = event["request"]["url"]
        if not address.startswith("data:"):
            self._addresses[event["requestId"]] = address
            self._count += 1

    def _on_finished(self, event: dict[str, Any]) -> None:
        address = self._addresses.get(event["requestId"])
        if address is not None:
            self._bytes[address] = self._bytes.get(address, 0) + int(event["encodedDataLength"])
