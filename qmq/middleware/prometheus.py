"""Metrics of producers and consumers for Prometheus. Needs the extra `prometheus`."""

from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

from qmq.client.delivery import Delivery
from qmq.client.middleware import Middleware, OutgoingMessage, ProcessState
from qmq.client.receipt import Receipt
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import SendFailed

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
except ImportError as error:
    raise ImportError(
        "qmq.middleware.prometheus needs the package prometheus-client. Install it with: pip install 'pyqmq[prometheus]'"
    ) from error

SUBJECTS_MAX = 1000
"""Subjects with metrics of their own, and as many pairs of a subject and a group; any others share the labels OTHER."""
OTHER = "(other)"
SEND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds; a send fails after `Timeouts.delivery`, 60 seconds by default."""
PROCESS_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class _OfSubject(NamedTuple):
    """The metrics of sends of one subject."""

    sent: Counter
    seconds: Histogram


class _OfGroup(NamedTuple):
    """The metrics of one subject and group."""

    received: Counter
    process_seconds: Histogram
    process_failures: Counter
    acked: Counter
    retried: Counter
    dead_letters: Counter


class _Metrics:
    """The metrics in one registry, shared by all middleware that uses it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"qmq_client_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"qmq_client_{name}", text, labels, buckets=buckets, registry=registry)

        both = ("subject", "group")
        self.sent = counter("sent_messages", "Messages that were stored", "subject")
        self.send_failures = counter("send_failures", "Messages whose send failed, by error code", "subject", "reason")
        self.send_seconds = histogram("send_seconds", "Seconds from a send to the receipt", SEND_BUCKETS, "subject")
        self.received = counter("received_messages", "Messages that a consumer pulled", *both)
        self.process_seconds = histogram(
            "process_seconds", "Seconds that a handler took, also if it failed", PROCESS_BUCKETS, *both
        )
        self.process_failures = counter("process_failures", "Handlers that raised an exception", *both)
        self.acked = counter("acked_messages", "Messages that were acknowledged", *both)
        self.retried = counter("retried_messages", "Messages that were retried, without dead letters", *both)
        self.dead_letters = counter("dead_letters", "Messages that exhausted their attempts", *both)
        self._subjects: dict[str, _OfSubject] = {}
        self._groups: dict[tuple[str, str], _OfGroup] = {}

    def subject_label(self, subject: str) -> str:
        self.of_subject(subject)
        return subject if subject in self._subjects else OTHER

    def of_subject(self, subject: str) -> _OfSubject:
        found = self._subjects.get(subject)
        if found is not None:
            return found
        if len(self._subjects) >= SUBJECTS_MAX and subject != OTHER:
            return self.of_subject(OTHER)
        found = self._subjects[subject] = _OfSubject(self.sent.labels(subject), self.send_seconds.labels(subject))
        return found

    def of_group(self, subject: str, group: str) -> _OfGroup:
        key = (subject, group)
        found = self._groups.get(key)
        if found is not None:
            return found
        if len(self._groups) >= SUBJECTS_MAX and key != (OTHER, OTHER):
            return self.of_group(OTHER, OTHER)
        found = self._groups[key] = _OfGroup(
            self.received.labels(*key),
            self.process_seconds.labels(*key),
            self.process_failures.labels(*key),
            self.acked.labels(*key),
            self.retried.labels(*key),
            self.dead_letters.labels(*key),
        )
        return found


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
        if isinstance(outcome, SendFailed):
            self._metrics.send_failures.labels(self._metrics.subject_label(message.subject), outcome.code).inc()
            return
        metrics = self._metrics.of_subject(message.subject)
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
