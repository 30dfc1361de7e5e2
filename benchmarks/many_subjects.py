"""What live numbers of many subjects cost, call by call. Prints a table of processor time.

    python -m benchmarks.many_subjects --subjects 1000 10000 100000

Needs the tests' folder beside it (it starts a Redis as the tests do).
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import django

_FOLDER = tempfile.TemporaryDirectory()
os.environ["QMQ_DATABASE_URL"] = f"sqlite:///{_FOLDER.name}/meta.sqlite3"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
os.environ.setdefault("QMQ_SECRET_KEY", "a key for benchmarks only")
django.setup()
# What follows imports models.

from django.core.management import call_command  # noqa: E402

from api.views.analytics import LAG_PAGES  # noqa: E402
from benchmarks.live import rss_bytes, stats_of  # noqa: E402
from console.cluster.measured import Measured  # noqa: E402
from console.cluster.places import NodePlace  # noqa: E402
from console.collector.summing import Sums, summed  # noqa: E402
from console.reports import overview  # noqa: E402
from console.reports.lag_table import TABLES  # noqa: E402
from console.snapshot.bus import Publisher, StoredReader  # noqa: E402
from console.snapshot.feeds import Feed, views  # noqa: E402
from console.snapshot.state import State, delta, empty  # noqa: E402
from console.times import rfc3339  # noqa: E402
from metaserver.models import ConsumerGroup, Subject  # noqa: E402

GROUPS = 2
ROUNDS = 3
CHANGED_EACH = 100
"""One of so many groups changes."""
NAME = "team.service.events.{}"
Result = TypeVar("Result")


class Table:
    """Prints a row for each call."""

    def __init__(self, subjects: int) -> None:
        self._subjects = subjects

    def row(self, what: str, call: Callable[[], Result], rounds: int = ROUNDS) -> Result:
        """The shortest of some calls; what the last one returned."""
        times = []
        for _ in range(rounds):
            began = time.process_time()
            found = call()
            times.append(time.process_time() - began)
        print(f"{self._subjects:>8}  {what:<64}{min(times) * 1000:9.1f} ms", flush=True)
        return found

    def text(self, what: str, value: str) -> None:
        """A row that is no time."""
        print(f"{self._subjects:>8}  {what:<64}{value:>12}", flush=True)


def summing(table: Table, subjects: int) -> State:
    """What the collector computes; the state."""
    page = stats_of(subjects, GROUPS, 1)
    places = [NodePlace("g0-a", "g0", "broker", True, "", "")]
    answers = {"g0-a": Measured(json.loads(page), None, 0)}
    sums = Sums()
    state: State = table.row("sum, everything new", lambda: empty() | summed(empty(), 0, places, answers, {}, Sums()))
    state = empty() | summed(state, 0, places, answers, {}, sums)
    same = table.row("sum, nothing changed", lambda: empty() | summed(state, 0, places, answers, {}, sums))
    table.row("compare, nothing changed", lambda: delta(state, same))
    again = {"g0-a": Measured(json.loads(page), None, 0)}
    table.row("sum, all pages read again, the same numbers", lambda: summed(state, 0, places, again, {}, sums), 1)
    return state


def changed(state: State) -> State:
    """The state with another lag of some groups."""
    entries = {
        key: {**entry, "lag": 7} if number % CHANGED_EACH == 0 else entry
        for number, (key, entry) in enumerate(state["groups"].items())
    }
    return state | {"groups": entries}


async def storing(table: Table, url: str, state: State) -> None:
    """What the collector stores, and what a reader makes of it."""
    publisher, reader = Publisher(url, "bench"), StoredReader(url)

    async def beat(version: int, new: State, before: State) -> int:
        change = delta(before, new)
        write = await publisher.store("bench", version, new, change)
        head = {"stream": "bench", "version": version, "at": rfc3339(0)}
        assert await publisher.publish(write, head, time.time_ns() // 1_000_000, "{}", [])
        return write.bytes_count

    other = changed(state)
    steps = (
        ("everything", empty(), state),
        ("1 % of the groups changed", state, other),
        ("nothing changed", other, other),
    )
    for version, (what, before, new) in enumerate(steps, 1):
        began = time.process_time()
        count = await beat(version, new, before)
        table.text(f"compare and store, {what}", f"{(time.process_time() - began) * 1000:9.1f} ms")
        table.text(f"bytes of that, {what}", f"{count / 1e6:9.3f} MB")
        table.row(f"read, {what}", reader.read, 1)
    await publisher.close()


def memory(url: str) -> None:
    """What a process that reads the snapshot needs for it."""
    before = rss_bytes(os.getpid())
    snapshot, _ = StoredReader(url).read()
    assert snapshot is not None
    groups = len(snapshot["state"]["groups"])
    print(
        f"{groups // GROUPS:>8}  {'memory of a process for the state':<64}{(rss_bytes(os.getpid()) - before) / 1e6:9.0f} MB"
    )


def showing(table: Table, state: State, subjects: int) -> None:
    """What a web process does with it."""
    Subject.objects.all().delete()
    rows = Subject.objects.bulk_create([Subject(name=NAME.format(number)) for number in range(subjects)], 5_000)
    ConsumerGroup.objects.bulk_create(
        [ConsumerGroup(subject=row, name=f"service-{number}") for row in rows for number in range(GROUPS)], 5_000
    )
    table.row(
        "the parts of 500 feeds (in a thread)", lambda: views(state, [Feed("lag", NAME.format(n)) for n in range(500)])
    )

    def page(new: State, subject: str | None = None, search: str = "") -> Any:
        request = SimpleNamespace(query_params={"ordering": "-drain_seconds"})
        view: Any = SimpleNamespace(request=request, download=None, whole=lambda *_, **__: 500)
        found = overview.lag_table(overview.Numbers(new, "", None), subject)
        return LAG_PAGES.page_of(view, found.ordered, found.row, lambda keys: (key for key in keys if search in key))

    before = rss_bytes(os.getpid())
    table.row("/lag/, 500 rows by drain time: first of a process", lambda: page(state), 1)
    table.text("memory of names and order", f"{(rss_bytes(os.getpid()) - before) / 1e6:9.0f} MB")
    table.row("first after a beat", lambda: page(state | {"groups": dict(state["groups"])}))
    page(state)
    table.row("between two beats", lambda: page(state))
    table.row("with a search that finds nothing", lambda: page(state, search="none"))
    table.row("of a subject", lambda: page(state, NAME.format(7)))
    table.row("/overview/, lag: first after a beat", lambda: overview._summary(state))
    TABLES.newest({}, "")


def main() -> None:
    """All sizes."""
    from tests.support.servers.services import redis_server

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subjects", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    call_command("migrate", verbosity=0)
    for subjects in parser.parse_args().subjects:
        table = Table(subjects)
        state = summing(table, subjects)
        with redis_server() as redis:
            asyncio.run(storing(table, redis.url, state))
            reading = multiprocessing.get_context("spawn").Process(target=memory, args=(redis.url,))
            reading.start()
            reading.join()
        showing(table, state, subjects)


if __name__ == "__main__":
    main()
