"""Metrics of the Prometheus middleware, with the real registry."""

import gc
import re

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from qmq.errors import SendFailed
from qmq.middleware import prometheus
from qmq.middleware.prometheus import PrometheusMiddleware
from tests.support.manual_clock import ManualClock
from tests.unit.qmq.middleware.deliveries import delivery, process, send

BOTH = {"subject": "orders", "group": "billing"}


class Metrics:
    """A middleware with a registry and a clock of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.clock = ManualClock()
        self.middleware = PrometheusMiddleware(self.registry, clock=self.clock)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"qmq_client_{name}", labels)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_sends_are_counted_and_measured(metrics: Metrics) -> None:
    send(metrics.middleware, between=lambda: metrics.clock.advance(0.2))
    send(metrics.middleware, between=lambda: metrics.clock.advance(2))
    send(metrics.middleware, outcome=SendFailed("no", code="subject.closed"))
    assert metrics.value("sent_messages_total", subject="orders") == 2
    assert metrics.value("send_failures_total", subject="orders", reason="subject.closed") == 1
    assert metrics.value("send_seconds_sum", subject="orders") == pytest.approx(2.2)
    assert metrics.value("send_seconds_count", subject="orders") == 2
    assert metrics.value("send_seconds_bucket", subject="orders", le="0.1") == 0
    assert metrics.value("send_seconds_bucket", subject="orders", le="0.25") == 1


def test_deliveries_are_counted_and_measured(metrics: Metrics) -> None:
    received, middleware = delivery(), metrics.middleware
    for _ in range(3):
        middleware.after_receive(received)
    process(middleware, received, handler=lambda: metrics.clock.advance(0.5))
    process(middleware, received, ValueError("x"), handler=lambda: metrics.clock.advance(1))
    middleware.after_ack(received)
    middleware.after_retry(received, "x", False)
    middleware.after_retry(received, "x", False)
    middleware.after_retry(received, "x", True)
    assert metrics.value("received_messages_total", **BOTH) == 3
    assert metrics.value("process_seconds_sum", **BOTH) == pytest.approx(1.5)
    assert metrics.value("process_seconds_count", **BOTH) == 2
    assert metrics.value("process_failures_total", **BOTH) == 1
    assert metrics.value("acked_messages_total", **BOTH) == 1
    assert metrics.value("retried_messages_total", **BOTH) == 2
    assert metrics.value("dead_letters_total", **BOTH) == 1


def test_two_in_one_registry_share_the_metrics(metrics: Metrics) -> None:
    second = PrometheusMiddleware(metrics.registry, clock=metrics.clock)
    send(metrics.middleware)
    send(second)
    assert metrics.value("sent_messages_total", subject="orders") == 2


def test_a_registry_is_not_held_in_memory() -> None:
    before = len(prometheus._metrics_of)
    found: Metrics | None = Metrics()
    assert len(prometheus._metrics_of) == before + 1
    del found
    gc.collect()
    assert len(prometheus._metrics_of) == before


def test_subjects_over_the_limit_share_one_label(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "SUBJECTS_MAX", 2)
    for subject in ("a", "b", "c", "d", "a"):
        send(metrics.middleware, subject=subject)
        send(metrics.middleware, subject=subject, outcome=SendFailed("no"))
        metrics.middleware.after_ack(delivery(subject=subject))
    sent = {name: metrics.value("sent_messages_total", subject=name) for name in ("a", "b", "c", "(other)")}
    assert sent == {"a": 2, "b": 1, "c": None, "(other)": 2}
    assert metrics.value("send_failures_total", subject="(other)", reason="client.send_failed") == 2
    assert metrics.value("acked_messages_total", subject="(other)", group="(other)") == 2
    assert metrics.value("acked_messages_total", subject="c", group="billing") is None


def test_the_default_limit_and_registry() -> None:
    assert prometheus.SUBJECTS_MAX == 1000
    send(PrometheusMiddleware(), subject="default.registry")
    assert REGISTRY.get_sample_value("qmq_client_sent_messages_total", {"subject": "default.registry"}) == 1


def test_the_names_and_labels_are_those_of_the_project(metrics: Metrics) -> None:
    send(metrics.middleware, outcome=SendFailed("x"))
    metrics.middleware.after_receive(delivery())
    text = generate_latest(metrics.registry).decode()
    names = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    assert {name for name in names if not name.endswith("_created")} == {
        f"qmq_client_{name}"
        for name in (
            "sent_messages_total", "send_failures_total", "send_seconds", "received_messages_total", "process_seconds",
            "process_failures_total", "acked_messages_total", "retried_messages_total", "dead_letters_total",
        )
    }  # fmt: skip
    assert set(re.findall(r'(\w+)="', text)) == {"subject", "group", "reason", "le"}
