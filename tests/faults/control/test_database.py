"""F28: the database stops, stands still, or takes no writes, under load, and comes back.

The data plane's part, and F32's restart without the database, are in tests/sim/faults.
"""

import asyncio
import time
from collections.abc import Iterator

import pytest

from qmq.client.producer import Producer
from tests.support.load.faults import Api, States, during, goes_on, is_problem, judges_again, load, running_plane, until
from tests.support.servers.processes import get_json
from tests.support.servers.services import RedisServer, Server, own_database
from tests.support.servers.system import System
from tests.support.waiting import figure
from tests.support.whole import in_whole_fault_runs

pytestmark = in_whole_fault_runs

AWAY_SECONDS = 60.0
CONNECT_AND_ANSWER_SECONDS = 3.0 + 6.0 + 1.0
"""metaserver.stored.database: a paused server costs one or the other, plus what the machine needs."""
SERVERS = ["postgresql", "mariadb"]


@pytest.fixture(scope="module", params=SERVERS)
def database(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture(scope="module")
def plane(database: Server, tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("database")
    with (
        own_database(database.url, "faults_f28") as url,
        running_plane(folder, redis_server.url, database_url=url) as found,
    ):
        yield found


def metaserver(plane: System) -> dict[str, object]:
    """What the metaserver says of itself."""
    found: dict[str, object] = get_json(f"http://127.0.0.1:{plane.http_port}/meta/cluster")["metaserver"]
    return found


async def a_new_subject_is_sent_to(plane: System, subject: str) -> float:
    """By a client that has just started; seconds it took."""
    began = time.monotonic()
    async with Producer(plane.meta_url, app="newcomer") as producer:
        await producer.send(subject, {"value": "1"})
    return time.monotonic() - began


@pytest.mark.parametrize("fault", ["stopped", "paused"])
async def test_f28_clients_do_not_notice_that_the_database_is_away(plane: System, database: Server, fault: str) -> None:
    name = f"{database.name} {fault}"
    states, api = States(plane), Api(plane)
    failures = {job["name"]: int(job["failures"]) for job in plane.get("/jobs/")["results"]}

    def look() -> None:
        assert is_problem(api.ask("GET", "/subjects/"))
        assert is_problem(api.ask("POST", "/subjects/", {"name": f"made-{fault}", "reason": "test"}))

    await a_new_subject_is_sent_to(plane, f"known-{fault}")
    async with load(plane, f"{fault}-orders", f"{fault}-payments") as traffic:
        # In this thread: a server ends with the thread that started it.
        with getattr(database, fault)():
            await during(AWAY_SECONDS / 2, look)
            # A subject nobody knew is given to broker groups from memory, and stored when there is where to.
            took = await a_new_subject_is_sent_to(plane, f"new-{fault}")
            figure(f"F28 {name}: first send to a new subject", took)
            assert int(str((await asyncio.to_thread(metaserver, plane))["not_stored_yet"])) > 0
            await during(AWAY_SECONDS / 2, look)
            await goes_on(traffic)
        figure(f"F28 {name}: slowest answer of the API", api.slowest_seconds, CONNECT_AND_ANSWER_SECONDS)
        assert api.statuses == {503}
        took = await until(lambda: api.ask("GET", "/subjects/").status == 200, 15, "the API is back")
        figure(f"F28 {name}: API back after the return", took)
        took = await until(lambda: not any(job["is_late"] for job in jobs(plane)), 60, "jobs go on")
        figure(f"F28 {name}: all jobs back after the return", took)
        took = await until(
            lambda: plane.ask("GET", f"/subjects/new-{fault}/").status == 200, 20, "the new subject is stored"
        )
        figure(f"F28 {name}: the new subject stored after the jobs", took)
        # Who was silent only in the database is not taken for dead once leases are judged again.
        took = await judges_again(plane)
        figure(f"F28 {name}: leases judged again after that", took)
    assert states.changes() == []
    assert all(group["state"] == "read_write" for group in plane.get("/broker-groups/")["results"])
    text = "".join(worker.log() for worker in plane.workers)
    noted = any(int(job["failures"]) > failures[job["name"]] for job in jobs(plane))
    assert noted or "the database does not" in text, text[-2000:]


def jobs(plane: System) -> list[dict[str, object]]:
    """Background jobs, by the API."""
    found: list[dict[str, object]] = plane.get("/jobs/")["results"]
    return found


async def test_f28_a_database_that_takes_no_writes_lets_everything_be_read(plane: System, database: Server) -> None:
    if database.name != "postgresql":
        pytest.skip("MariaDB lets its superuser, who the tests are, write all the same")
    states, api = States(plane), Api(plane)

    def look() -> None:
        assert api.ask("GET", "/subjects/").status == 200
        assert is_problem(api.ask("POST", "/subjects/", {"name": "made-readonly", "reason": "test"}))

    async with load(plane, "readonly-orders") as traffic:
        # A token that was not used for a minute has its use noted: that can't be a reason to refuse a look.
        forget_uses_of_tokens(plane)
        set_read_only(database, "on")
        try:
            await until(lambda: plane.ask("POST", "/subjects/", {"name": "probe"}).status == 503, 10, "it is read-only")
            await during(5, look)
            took = await a_new_subject_is_sent_to(plane, "new-readonly")
            figure(f"F28 {database.name} read-only: first send to a new subject", took)
            await goes_on(traffic)
        finally:
            set_read_only(database, "off")
        await until(lambda: plane.ask("GET", "/subjects/new-readonly/").status == 200, 30, "the new subject is stored")
        await until(lambda: not any(job["is_late"] for job in jobs(plane)), 60, "jobs go on")
    assert states.changes() == []


def forget_uses_of_tokens(plane: System) -> None:
    """As after a minute's rest."""
    import psycopg

    with psycopg.connect(plane.environment["QMQ_DATABASE_URL"], autocommit=True) as connection:
        connection.execute("UPDATE accounts_apitoken SET last_used_at = NULL")


def set_read_only(server: Server, word: str) -> None:
    """Of every database and connection, those that are open included."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {word}")  # type: ignore[arg-type]
        connection.execute("SELECT pg_reload_conf()")
