"""The examples of the integrations, as programs against real nodes."""

import signal
from pathlib import Path

from tests.served.integrations.programs import ask, run, running
from tests.support.servers import ports
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually

SHOP = PROJECT / "examples/django_shop"


def test_the_plain_script_sends_and_receives(system: System, tmp_path: Path) -> None:
    code, output = run(tmp_path, "script", "examples/plain_script.py", QMQ_META=system.meta_url)
    assert code == 0, output
    assert output.count("sent ") == 3
    assert sorted(line for line in output.splitlines() if line.startswith("hello")) == [
        "hello Ada", "hello Alan", "hello Grace",
    ]  # fmt: skip


def test_the_fastapi_app_sends_and_consumes_and_ends_with_its_server(system: System, tmp_path: Path) -> None:
    port = ports.free_port()
    url = f"http://127.0.0.1:{port}"
    with running(
        tmp_path, "fastapi", "-m", "uvicorn", "examples.fastapi_app.main:app", "--port", str(port),
        QMQ_META=system.meta_url,
    ) as server:  # fmt: skip
        eventually(lambda: ask(f"{url}/healthz")[0] == 200, what="the API serves")
        status, placed = ask(f"{url}/orders", {"customer": "Ada", "cents": 1250})
        assert status == 202
        receipt = f"{url}/receipts/{placed['message_id']}"
        eventually(lambda: ask(receipt)[0] == 200, what="the consumer issued the receipt")
        assert ask(receipt)[1] == {"text": "Ada paid 12.50"}
        assert ask(f"{url}/orders", {"customer": "Ada"})[0] == 422
        # uvicorn ends itself by the signal once the lifespan has ended.
        assert server.stop(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert "Application shutdown complete" in server.output
        assert "Traceback" not in server.output


def test_the_django_shop_sends_on_commit_and_both_kinds_of_consumer_work(system: System, tmp_path: Path) -> None:
    port = ports.free_port()
    url = f"http://127.0.0.1:{port}/orders"
    environment = {
        "DJANGO_SETTINGS_MODULE": "settings",
        "QMQ_META": system.meta_url,
        "SHOP_DATABASE": str(tmp_path / "shop.sqlite3"),
        "SHOP_DEBUG": "0",
    }
    code, output = run(tmp_path, "migrate", "manage.py", "migrate", cwd=SHOP, **environment)
    assert code == 0, output
    with (
        running(tmp_path, "web", "manage.py", "runserver", "--noreload", str(port), cwd=SHOP, **environment) as web,
        running(tmp_path, "consume", "manage.py", "qmq_consume", cwd=SHOP, **environment) as consume,
    ):
        eventually(lambda: ask(f"{url}/0/")[0] or web.process.poll() is not None, what="the site serves")
        assert ask(f"{url}/", {"customer": "Ada", "cents": 0})[0] == 400, "its transaction is rolled back"
        status, placed = ask(f"{url}/", {"customer": "Grace", "cents": 990})
        assert status == 201, web.output
        done = {"is_mailed": True, "receipt": "Grace paid 9.90"}
        eventually(lambda: ask(f"{url}/{placed['order']}/")[1] == done, what="both consumers handled the order")
        assert "orders.consumers.receipts, orders.consumers.mails" in consume.output
        assert consume.stop() == 0, consume.output
        assert "failed" not in consume.output
        stats = [system.admin(name, "/stats?subject=shop.order-placed")["subjects"] for name in system.brokers]
        assert sum(subject["end_sequence"] for subjects in stats for subject in subjects) == 1, (
            "the rolled-back order sent none"
        )
