"""Producers and consumers over REST: connections of real nodes with what clients registered, and a node that is away."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from console.cluster import clients as service
from metaserver import domain
from metaserver.models import ClientSeen
from metaserver.services.routes import save_clients
from qmq import Consumer, Producer
from qmq.net.session import AGENT
from qmq.protocol.codes import ClientType
from tests.served.api.nodes.crew import Crew
from tests.support.servers.threaded_system import ThreadedSystem
from tests.support.waiting import ASK_SECONDS, eventually

CLIENTS = "/api/v1/clients/"


@contextmanager
def running(cluster: ThreadedSystem) -> Iterator[None]:
    """A producer `shop` and two consumers of `orders`, which sent and pulled on both broker groups."""

    async def begin() -> tuple[Producer, list[Consumer]]:
        producer = Producer(cluster.meta_url, app="shop")
        await producer.start()
        consumers = [
            Consumer(cluster.meta_url, "orders", "billing", app="mail", consumer_id=name, tags=tags)
            for name, tags in (("c1", ["odd"]), ("c2", ["odd", "even"]))
        ]
        for consumer in consumers:
            await consumer.start()
            await consumer.pull(1, timeout=0.1)
        for number in range(6):
            await producer.send("orders", {"n": number})
        return producer, consumers

    async def end() -> None:
        for consumer in consumers:
            await consumer.close()
        await producer.close()

    producer, consumers = cluster.do(begin)
    try:
        cluster.save_metadata()
        # The metaserver of this system keeps registrations in memory.
        save_clients(
            [
                domain.ClientSeen("orders", ClientType.PRODUCER, "", "h@@1", "shop", AGENT),
                *(domain.ClientSeen("orders", ClientType.CONSUMER, "billing", c, "mail", AGENT) for c in ("c1", "c2")),
            ]
        )
        yield
    finally:
        cluster.do(end)


def rows_of(crew: Crew, query: str = "") -> list[dict[str, Any]]:
    page = crew.viewer.get(f"{CLIENTS}?{query}").json()
    return [row for row in page["results"] if row["connections"]]


def when(crew: Crew, count: int, query: str = "") -> list[dict[str, Any]]:
    """The connected clients, once there are so many with a rate: brokers share an answer for a moment."""

    def found() -> list[dict[str, Any]] | None:
        rows = rows_of(crew, query)
        return rows if len(rows) == count and all(row["at_least"] is not None for row in rows) else None

    return eventually(found, every_s=ASK_SECONDS)


def test_a_process_is_one_row_with_its_connections_and_what_it_registered(cluster: ThreadedSystem, crew: Crew) -> None:
    with running(cluster):
        shop, c1, c2 = when(crew, 3, "subject=orders&ordering=-role")
        assert (shop["role"], shop["app"], shop["owner"]) == ("producer", "shop", "sales")
        assert (shop["connections"], shop["broker_groups"]) == (2, ["g1", "g2"])
        assert shop["rate"] > 0
        assert (c1["client_id"], c1["app"], c1["group"], c1["tags"]) == ("c1", "mail", "billing", ["odd"])
        assert (c2["tags"], c2["all_tags"], c2["broadcast"]) == (["even", "odd"], False, False)
        assert shop["agents"] == c1["agents"] == [AGENT]
        page = crew.viewer.get(f"{CLIENTS}?differs=true").json()
        assert {row["client_id"] for row in page["results"]} == {"c1", "c2"}
        assert page["differing"] == [{"subject": "orders", "group": "billing", "differs": ["tags"]}]
        assert [row["app"] for row in rows_of(crew, "search=SHOP")] == ["shop"]
        assert [row["client_id"] for row in rows_of(crew, "role=consumer&app=mail&group=billing")] == ["c1", "c2"]
        csv = crew.viewer.get(f"{CLIENTS}?subject=orders&format=csv")
        assert b"shop" in b"".join(csv.streaming_content)


def test_a_broker_group_that_is_away_makes_rates_lower_bounds(cluster: ThreadedSystem, crew: Crew) -> None:
    with running(cluster):
        when(crew, 3, "subject=orders")
        cluster.stop_broker("g2")
        page = crew.viewer.get(f"{CLIENTS}?subject=orders").json()
        assert set(page["unreachable"]) == {"g2"}
        shop = next(row for row in page["results"] if row["app"] == "shop" and row["connections"])
        assert (shop["rate"], shop["missing"], shop["broker_groups"]) == (None, ["g2"], ["g1"])
        assert shop["at_least"] is not None


def test_clients_that_registered_and_are_not_connected(cluster: ThreadedSystem, crew: Crew) -> None:
    seen = {"last_seen_at": service.timezone.now(), "subject": "free", "client_id": "h1@@9", "app": "idle"}
    ClientSeen.objects.create(key="p", client_type=ClientType.PRODUCER, **seen)
    ClientSeen.objects.create(key="d", client_type=ClientType.DELAY_PRODUCER, **seen)
    ClientSeen.objects.create(key="o", client_type=ClientType.OTHER, **seen)
    page = crew.viewer.get(f"{CLIENTS}?subject=free&app=idle&ordering=role").json()
    found = [(row["role"], row["host"], row["connections"], row["rate"]) for row in page["results"]]
    assert found == [("delayed_producer", "h1", 0, None), ("producer", "h1", 0, 0.0)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("role=boss", "role"),
        ("ordering=colour", "ordering"),
        ("differs=maybe", "differs"),
        ("subject=a%00b", "subject"),
    ],
)
def test_bad_filters_name_the_parameter(crew_without_nodes: Crew, query: str, field: str) -> None:
    answer = crew_without_nodes.viewer.get(f"{CLIENTS}?{query}")
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_a_subject_that_does_not_exist_has_no_clients(crew_without_nodes: Crew) -> None:
    page = crew_without_nodes.viewer.get(f"{CLIENTS}?subject=nowhere").json()
    assert (page["results"], page["unreachable"], page["left_out"], page["differing"]) == ([], {}, 0, [])
