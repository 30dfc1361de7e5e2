"""A live tail leaves one audit entry, with what it showed."""

from typing import Any

from asgiref.sync import async_to_sync

from console.live.consumers import LiveApp
from metaserver import queries
from qmq import Producer
from tests.served.api.nodes.crew import Crew
from tests.support.console.websockets import InProcessSocket, opened
from tests.support.servers.threaded_system import ThreadedSystem

OWN_ID = "a-program-7"


def _messages(socket: InProcessSocket) -> list[dict[str, Any]]:
    return [message for text in socket.sent for message in text.get("messages", ())]


def test_a_tail_is_one_audit_entry_with_its_counts(cluster: ThreadedSystem, crew: Crew) -> None:
    headers = [("authorization", crew.own._credentials["HTTP_AUTHORIZATION"]), ("x-request-id", OWN_ID)]
    shown: dict[str, int] = {}

    async def watch() -> None:
        app = LiveApp()
        async with (
            Producer(cluster.meta_url, app="test") as producer,
            opened(app, "/ws/tail/?subject=orders", headers) as long,
            opened(app, "/ws/tail/?subject=orders", headers) as short,
        ):
            assert (await long.verdict(), await short.verdict()) == (None, None)
            number = 0
            # The tail is at the end of the log once it shows a message that was sent after it was opened.
            while not _messages(long):
                await producer.send("orders", {"n": number})
                number += 1
            short.hang_up()
            for number in range(3):
                await producer.send("orders", {"n": number} if number else {})
            await long.until(lambda socket: len(_messages(socket)) >= 4)
            shown["long"], shown["short"] = len(_messages(long)), len(_messages(short))
            shown["with bodies"] = sum(bool(message["properties"]) for message in _messages(long))

    async_to_sync(watch)()
    entries = list(queries.audit_entries().filter(action="message.read"))
    assert {entry.target for entry in entries} == {"orders"}
    assert sorted(entry.after["messages"] for entry in entries) == sorted([shown["long"], shown["short"]])
    for entry in entries:
        assert (entry.actor[:4], entry.address, entry.client_request_id) == ("olga", "192.0.2.7", OWN_ID)
        assert len(entry.request_id) == 32
        assert entry.after["path"] == "/ws/tail/"
        assert entry.after["seconds"] >= 0
    last = max(entries, key=lambda entry: entry.after["messages"])
    assert last.after["with_bodies"] == shown["with bodies"]
    assert len({entry.request_id for entry in entries}) == 2
