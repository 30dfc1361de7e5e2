"""Pages of other sites can't use admin HTTP servers from a browser, not even with a DNS name that points to loopback (F-10)."""

import json
from pathlib import Path

import pytest

from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq_testing.repository import MemoryRepository
from tests.served.identity.requests import Fields, request
from tests.support.drivers.in_process import connected, message, running_broker

REBOUND = [
    {"Host": "evil.example:35004"},
    {"Host": "evil.example"},
    {"Host": "localhost.evil.example"},
    {"Host": "2130706433"},
    {"Host": "evil.example:35004", "Origin": "http://evil.example:35004", "Sec-Fetch-Site": "same-origin"},
    {"Host": "evil.example", "Authorization": 'QMQ-HMAC nonce="1", counter="1", mac="00"'},
]
FOREIGN = [
    {"Host": "127.0.0.1", "Origin": "http://evil.example"},
    {"Host": "127.0.0.1:20981", "Origin": "http://127.0.0.1:8000"},
    {"Host": "127.0.0.1", "Origin": "null"},
    {"Host": "127.0.0.1", "Sec-Fetch-Site": "cross-site"},
]
OURS = [
    {"Host": "127.0.0.1:20981"},
    {"Host": "localhost:20981"},
    {"Host": "LOCALHOST."},
    {"Host": "[::1]:20981"},
    {"Host": "10.1.2.3"},
    {"Host": "127.0.0.1:20981", "Origin": "http://127.0.0.1:20981", "Sec-Fetch-Site": "same-origin"},
    {"Host": "127.0.0.1", "Sec-Fetch-Site": "none"},
]


@pytest.mark.parametrize("fields", REBOUND + FOREIGN, ids=str)
async def test_a_page_of_another_site_neither_reads_nor_changes_anything(tmp_path: Path, fields: Fields) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1), message(2))
        await client.begin()
        for path in ("/subjects/orders/messages", "/stats", "/metrics", "/subjects/orders/groups/g"):
            status, body = await request(broker.admin.address, path, fields)
            assert status in (401, 403), path
            assert b"m1" not in body
        reset = json.dumps({"to": "latest"}).encode()
        status, _ = await request(broker.admin.address, "/subjects/orders/groups/g/reset", fields, "POST", reset)
        assert status in (401, 403)
        assert (await client.pull())[1] == ["m1", "m2"], "the group was not reset"


@pytest.mark.parametrize("fields", OURS, ids=str)
async def test_loopback_names_and_addresses_are_served(tmp_path: Path, fields: Fields) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1))
        assert (await request(broker.admin.address, "/stats", fields))[0] == 200


@pytest.mark.parametrize("fields", REBOUND + FOREIGN, ids=str)
async def test_the_metaservers_pages_are_closed_to_them_too_but_for_the_address(tmp_path: Path, fields: Fields) -> None:
    options = MetaOptions(data_dir=str(tmp_path), http_port=0, tcp_port=0)
    metaserver = Metaserver(options, MemoryRepository())
    await metaserver.start()
    try:
        for path in ("/meta/cluster", "/meta/subjects", "/metrics"):
            assert (await request(metaserver.admin.address, path, fields))[0] in (401, 403)
        # Clients ask it by whatever name their operators gave it, and supervisors ask the health pages.
        for path in ("/meta/address", "/healthz", "/readyz"):
            assert (await request(metaserver.admin.address, path, fields))[0] == 200
    finally:
        await metaserver.close()


async def test_further_names_can_be_configured(tmp_path: Path) -> None:
    async with running_broker(tmp_path, admin_names="broker1.example, b1") as broker:
        for host, status in (("broker1.example:20981", 200), ("B1", 200), ("b2", 403), ("xb1", 403)):
            assert (await request(broker.admin.address, "/stats", {"Host": host}))[0] == status
