"""`python -m benchmarks.relay`: what a relay of the outbox needs; prints a table.

For PostgreSQL and MariaDB: a table with many rows is relayed to two broker groups; then passes over the empty table. Then a
relay for each of many idle tables of the server. Each in a process of its own, whose memory is measured. Nothing here asserts:
figures go to docs/performance.md by hand, with the date.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from qmq.client.message import standard_properties
from qmq.client.middleware import OutgoingMessage
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import Statements, ddl_statements
from qmq.outbox.relay import Relay
from qmq.outbox.relaying import Relaying
from qmq.outbox.rows import content_of
from qmq.sync import Producer
from tests.support.servers.processes import PROJECT
from tests.support.servers.services import MariadbServer, PostgresqlServer, own_database, running
from tests.support.servers.system import System

ROWS = 1_000_000
BODY_BYTES = 128
SUBJECT = "bench.relay"
EMPTY_PASSES = 200
IDLE_DATABASES = 20
IDLE_SECONDS = 60.0
FILL_SECONDS = 600.0
SERVERS = (PostgresqlServer, MariadbServer)


def fill(connection: Connection, rows: int) -> None:
    """Rows that are due, each with an ID of its own."""
    message = OutgoingMessage(SUBJECT, "m-NUMBER", {**standard_properties("bench", 1), "data": "x" * BODY_BYTES}, ())
    insert = f"INSERT INTO {Statements(connection.kind).table} (content, create_time, update_time) SELECT replace(?, 'NUMBER', "
    if connection.kind is Kind.POSTGRESQL:
        connection.raw.seconds = FILL_SECONDS
        connection.change("SET statement_timeout = 0")
        sql = f"{insert} n::text), now(), now() - interval '2 minutes' FROM generate_series(1, {rows}) AS n"
    else:
        connection.raw._read_timeout = FILL_SECONDS
        connection.change("SET SESSION max_statement_time = 0")
        sql = f"{insert} seq), now(), now() - interval 2 minute FROM seq_1_to_{rows}"
    connection.change(sql, [content_of(message)])


def relay_all(address: Address, meta_url: str, rows: int) -> None:
    """Relay the rows and print what it took."""
    with Producer(meta_url, app="bench") as producer:
        relay = Relay(partial(connect, address), producer)
        began, used, sent = time.perf_counter(), time.process_time(), 0
        while sent < rows:
            done = relay.run_pass()
            if done.left or not done.sent:
                raise SystemExit(f"rows are left: {done}")
            sent += done.sent
        seconds, used = time.perf_counter() - began, time.process_time() - used
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        passes = []
        for _ in range(EMPTY_PASSES):
            began = time.perf_counter()
            relay.run_pass()
            passes.append(time.perf_counter() - began)
        relay.close()
    print(
        f"{address.kind:10}  {sent / seconds:7,.0f} rows/s  {used / sent * 1e6:5.1f} us of processor time a row  {memory} MiB"
        f"  empty pass p50 {statistics.median(passes) * 1e3:.2f} ms"
    )


def relay_idle(address: Address, meta_url: str, count: int) -> None:
    """A relay for each of many empty tables, for a minute."""
    connection = connect(address)
    for number in range(count):
        connection.change(f"CREATE SCHEMA idle_{number}")
        for statement in ddl_statements(address.kind, f"idle_{number}.qmq_msg_queue"):
            connection.change(statement)
    connection.close()
    with Producer(meta_url, app="bench") as producer:
        relays = {
            str(number): Relay(partial(connect, address), producer, table=f"idle_{number}.qmq_msg_queue")
            for number in range(count)
        }
        ends_at = time.monotonic() + IDLE_SECONDS
        used = time.process_time()
        relaying = Relaying(relays, lambda name, done: relaying.stop() if time.monotonic() > ends_at else None)
        relaying.run()
        used = time.process_time() - used
    print(f"{count} idle databases: {used / IDLE_SECONDS:.1%} of a core")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        what, database, meta_url = arguments.work
        address = Address.parse(database)
        if what == "idle":
            relay_idle(address, meta_url, IDLE_DATABASES)
        else:
            relay_all(address, meta_url, arguments.rows)
        return 0
    with tempfile.TemporaryDirectory() as folder, System(Path(folder)) as system:
        system.start_nodes()
        for kind in SERVERS:
            with running(kind) as server, own_database(server.url, "bench") as url:
                address = Address.parse(url.partition("?")[0])
                connection = connect(address)
                for statement in ddl_statements(address.kind):
                    connection.change(statement)
                fill(connection, arguments.rows)
                connection.close()
                for what in ("relay", "idle"):
                    command = [sys.executable, "-m", "benchmarks.relay", "--rows", str(arguments.rows), "--work", what]
                    subprocess.run([*command, url.partition("?")[0], system.meta_url], cwd=PROJECT, check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
