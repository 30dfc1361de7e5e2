"""Java clients of the tests, of each release."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.served.conformance.driver import NEWEST, WIRE_8, JavaClient, Make
from tests.support.servers.system import System
from tests.support.whole import in_whole_fault_runs


@pytest.fixture(params=[NEWEST, pytest.param(WIRE_8, marks=in_whole_fault_runs)])
def version(request: pytest.FixtureRequest) -> str:
    """Releases of the client: the newest, and one with header version 8."""
    return str(request.param)


@pytest.fixture
def java(version: str, tmp_path: Path) -> Iterator[Make]:
    """Makes Java clients; all are ended afterwards."""
    made: list[JavaClient] = []

    def make(
        system: System, client_id: str = "java@@1", heap_mib: int = 256, send_timeout_ms: int | None = None
    ) -> JavaClient:
        log = tmp_path / f"java-{len(made)}.log"
        client = JavaClient(version, system.meta_url, f"{client_id}-{version}", log, heap_mib, send_timeout_ms)
        made.append(client)
        return client

    try:
        yield make
    finally:
        for client in made:
            client.stop()
