"""`make demo-orders`: orders are placed while processes of the shop are killed; in the end the books have to balance.

A metaserver, a broker and a delay node run in this process; two web workers, two processes of consumers and a relay in processes of
their own, which are killed at random and started again. The database is a PostgreSQL of its own if one is installed, else SQLite.
"""

import argparse
import http.client
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from qmq_testing import Server
from tests.support.servers.services import ServerMissing, postgresql_server

PROJECT = Path(__file__).parent
ROOT = PROJECT.parent.parent
KILLED_EVERY_SECONDS = (1.0, 4.0)
"""Between two kills, at random."""
GRACE_SECONDS = 5
"""Rows of a killed web worker are relayed at this age, so that the demo ends soon; 60 by default."""
BALANCED_SECONDS = 120.0
"""How long the consumers may take for what is left."""
GROUPS = ("revenue", "shipping")
WEB_WORKERS = 2
CONSUMERS = 2


@dataclass
class Part:
    """A process of the shop, which is started again after it was killed."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    port: int = 0
    kills: int = 0
    process: "subprocess.Popen[bytes]" = field(init=False)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.command], cwd=PROJECT, env=self.environment, stdout=log, stderr=log
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class Customers:
    """Place orders with all web workers until they are stopped. An order whose answer is lost may be stored or not."""

    def __init__(self, ports: list[int], chance: random.Random) -> None:
        self._ports = ports
        self._chance = chance
        self._numbers = itertools.count()
        self._stopping = threading.Event()
        self.answered = 0
        self.unanswered = 0
        self._threads = [threading.Thread(target=self._shop, args=(port,)) for port in ports]

    def __enter__(self) -> "Customers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _shop(self, port: int) -> None:
        while not self._stopping.is_set():
            order = {"number": f"{port}-{next(self._numbers)}", "cents": self._chance.randint(1, 10_000)}
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("POST", "/orders/", json.dumps(order))
                if connection.getresponse().status == 201:
                    self.answered += 1
                    continue
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            self.unanswered += 1
            self._stopping.wait(0.05)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def database(folder: Path) -> Iterator[str]:
    """The URL of an empty database."""
    try:
        with postgresql_server() as server:
            yield server.url
    except ServerMissing:
        yield f"sqlite:///{folder}/orders.sqlite3"


def parts_of(folder: Path, environment: dict[str, str]) -> list[Part]:
    found = []
    for number in range(WEB_WORKERS):
        port = free_port()
        command = [
            "-m",
            "uvicorn",
            "--lifespan",
            "off",
            "--log-level",
            "warning",
            "--port",
            str(port),
            "asgi:application",
        ]
        found.append(Part(f"web {number + 1}", command, environment, folder / f"web-{number}.log", port))
    for number in range(CONSUMERS):
        found.append(
            Part(f"consumer {number + 1}", ["manage.py", "qmq_consume"], environment, folder / f"consumer-{number}.log")
        )
    relay = ["manage.py", "outbox_watchdog", "--grace", str(GRACE_SECONDS)]
    found.append(Part("relay", relay, environment, folder / "relay.log"))
    return found


def manage(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def books(environment: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Orders and cents: of the orders, and as each consumer group has booked them."""
    script = (
        "import json; from django.db.models import Count, Sum; from books.models import Account, Order;"
        " found = Order.objects.aggregate(n=Count('*'), c=Sum('cents'));"
        " rows = {'orders': (found['n'], found['c'] or 0)};"
        " rows |= {a.name: (a.orders, a.cents) for a in Account.objects.all()};"
        " print(json.dumps(rows))"
    )
    found = json.loads(manage(environment, "shell", "--no-imports", "-v", "0", "-c", script))
    return {name: (count, cents) for name, (count, cents) in found.items()}


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Look once a second until a condition is true, at most this long."""
    ends_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends_at:
            return False
        time.sleep(1.0)
    return True


def is_balanced(found: dict[str, tuple[int, int]]) -> bool:
    return found["orders"] != (0, 0) and all(found[group] == found["orders"] for group in GROUPS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo-orders", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long processes are killed; default: 60")
    parser.add_argument("--seed", type=int, help="of the choice of processes and times; default: at random")
    arguments = parser.parse_args()
    seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed
    chance = random.Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orders-")))
        url = stack.enter_context(database(folder))
        server = stack.enter_context(Server())
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "settings",
            "ORDERS_DATABASE_URL": url,
            "PYTHONPATH": os.pathsep.join((str(PROJECT), str(ROOT))),
            "QMQ_META": server.url,
        }
        manage(environment, "migrate", "-v", "0")
        accounts = f"from books.models import Account; [Account.objects.create(name=n) for n in {GROUPS}]"
        manage(environment, "shell", "--no-imports", "-v", "0", "-c", accounts)
        parts = parts_of(folder, environment)
        for part in parts:
            part.start()
            stack.callback(part.stop)
        print(f"{url.partition(':')[0]}, seed {seed}: killing {', '.join(part.name for part in parts)}", flush=True)
        ends_at = time.monotonic() + arguments.seconds
        with Customers([part.port for part in parts if part.port], chance) as customers:
            while time.monotonic() < ends_at:
                time.sleep(chance.uniform(*KILLED_EVERY_SECONDS))
                chance.choice(parts).kill()
        print(f"killed: {', '.join(f'{part.name} {part.kills} times' for part in parts)}")
        print(f"orders: {customers.answered} confirmed, {customers.unanswered} requests without an answer", flush=True)
        balanced = wait(lambda: is_balanced(books(environment)), BALANCED_SECONDS)
        for name, (count, cents) in books(environment).items():
            print(f"{name:10} {count:8} orders  {cents / 100:12.2f}")
        print("the books balance" if balanced else "THE BOOKS DO NOT BALANCE")
        if not balanced:
            for part in parts:
                print(f"--- {part.name}\n{part.log.read_text()[-2000:]}")
    return 0 if balanced else 1


if __name__ == "__main__":
    sys.exit(main())
