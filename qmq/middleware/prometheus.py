"""Metrics of producers and consumers for Prometheus. Needs the extra `prometheus`."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from qmq.client.delivery import Delivery
from qmq.client.middleware import Middleware, OutgoingMessage, ProcessState
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import SendFailed
from qmq.receipt import Receipt

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
except ImportError as error:
    raise ImportError(
        "qmq.middleware.prometheus needs the package prometheus-client. Install it with: pip install 'pyqmq[prometheus]'"
    ) from error

M = TypeVar("M")
SUBJECTS_MAX = 1000
"""Subjects with metrics of their own, and as many pairs of a subject and a group; any others share the labels OTHER."""
OTHER = "(other)"
SEND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds; a send fails after `Timeouts.delivery`, 60 seconds by default."""
PROCESS_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class _OfSubject(NamedTuple):
    label: str
    sent: Counter
    seconds: Histogram


class _OfGroup(NamedTuple):
    received: Counter
    process_seconds: Histogram
    process_failures: Counter
    acked: Counter
    retried: Counter
    dead_letters: Counter


class _ByLabels(Generic[M]):
    """The metrics of the first SUBJECTS_MAX values of labels. All further values share those of OTHER."""

    def __init__(self, make: Callable[..., M]) -> None:
        self._make = make
        self._known: dict[tuple[str, ...], M] = {}

    def of(self, *labels: str) -> M:
        found = self._known.get(labels)
        if found is None and len(self._known) >= SUBJECTS_MAX:
            labels = (OTHER,) * len(labels)
            found = self._known.get(labels)
        if found is None:
            found = self._known[labels] = self._make(*labels)
        return found


class _Metrics:
    """The metrics in one registry, shared by all middleware that uses it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"qmq_client_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"qmq_client_{name}", text, labels, buckets=buckets, registry=registry)

        sent = counter("sent_messages", "Messages that were stored", "subject")
        self.send_failures = counter("send_failures", "Messages whose send failed, by error code", "subject", "reason")
        seconds = histogram("send_seconds", "Seconds from a send to the receipt", SEND_BUCKETS, "subject")
        both = ("subject", "group")
        text = "Seconds that a handler took, also if it failed"
        of_group: tuple[Any, ...] = (
            counter("received_messages", "Messages that a consumer pulled", *both),
            histogram("process_seconds", text, PROCESS_BUCKETS, *both),
            counter("process_failures", "Handlers that raised an exception", *both),
            counter("acked_messages", "Messages that were acknowledged", *both),
            counter("retried_messages", "Messages that were retried, without dead letters", *both),
            counter("dead_letters", "Messages that exhausted their attempts", *both),
        )
        self.of_subject = _ByLabels(lambda label: _OfSubject(label, sent.labels(label), seconds.labels(label))).of
        self.of_group = _ByLabels(lambda *labels: _OfGroup(*(metric.labels(*labels) for metric in of_group))).of


_metrics_of: "WeakKeyDictionary[CollectorRegistry, _Metrics]" = WeakKeyDictionary()


def _metrics_in(registry: CollectorRegistry) -> _Metrics:
    # A registry accepts each metric once, and a program may have several producers and consumers with middleware of their own.
    found = _metrics_of.get(registry)
    if found is None:
        found = _metrics_of[registry] = _Metrics(registry)
    return found


class PrometheusMiddleware(Middleware):
    """Counts messages and measures durations, as metrics `qmq_client_...` with the labels `subject` and `group`.

    Several instances can use the same registry: they share the metrics. At most SUBJECTS_MAX subjects, and as many pairs of subject
    and group, have metrics of their own; others share those with the label "(other)".

    Args:
        registry: None: the default registry of prometheus_client.
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._metrics = _metrics_in(REGISTRY if registry is None else registry)
        self._clock = clock
        self._processing: ProcessState[float] = ProcessState("qmq_prometheus_begin")

    def before_send(self, message: OutgoingMessage) -> None:
        message.state[self] = self._clock.monotonic()

    def after_send(self, message: OutgoingMessage, outcome: Receipt | SendFailed) -> None:
        metrics = self._metrics.of_subject(message.subject)
        if isinstance(outcome, SendFailed):
            self._metrics.send_failures.labels(metrics.label, outcome.code).inc()
            return
        metrics.sent.inc()
        begin = cast("float | None", message.state.get(self))
        if begin is not None:
            metrics.seconds.observe(self._clock.monotonic() - begin)

    def after_receive(self, delivery: Delivery) -> None:
        self._metrics.of_group(delivery.subject, delivery.group).received.inc()

    def before_process(self, delivery: Delivery) -> None:
        self._processing.begin(delivery, self._clock.monotonic())

    def after_process(self, delivery: Delivery, error: BaseException | None) -> None:
        metrics = self._metrics.of_group(delivery.subject, delivery.group)
        begin = self._processing.end(delivery)
        if begin is not None:
            metrics.process_seconds.observe(self._clock.monotonic() - begin)
        if error is not None:
            metrics.process_failures.inc()

    def after_ack(self, delivery: Delivery) -> None:
        self._metrics.of_group(delivery.subject, delivery.group).acked.inc()

    def after_retry(self, delivery: Delivery, cause: str, is_dead_letter: bool) -> None:
        metrics = self._metrics.of_group(delivery.subject, delivery.group)
        (metrics.dead_letters if is_dead_letter else metrics.retried).inc()
