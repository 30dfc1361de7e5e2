"""Spans of OpenTelemetry for sending and processing, by its conventions for messaging. Needs the extra `opentelemetry`."""

from typing import Any, cast

from qmq.client.delivery import Delivery
from qmq.client.middleware import Middleware, OutgoingMessage, ProcessState
from qmq.errors import QmqError, SendFailed
from qmq.receipt import Receipt

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
except ImportError as error:
    raise ImportError(
        "qmq.middleware.opentelemetry needs the package opentelemetry-api. Install it with: pip install 'pyqmq[opentelemetry]'"
    ) from error

SYSTEM = "qmq"
"""Value of `messaging.system`."""


class OpenTelemetryMiddleware(Middleware):
    """Creates a span for each message that is sent and for each delivery that is processed, and connects the two.

    - "send SUBJECT" (kind PRODUCER) lasts until the message is stored. Its context is sent in the properties of the message, by
      default `traceparent`, `tracestate` and `baggage` of W3C, which libraries of other languages read too. A message that already
      has a trace context is sent with that one, and the span has a link to it.
    - "process SUBJECT" (kind CONSUMER) lasts while the handler or the `async with delivery` block runs, and is the current span
      there. It has a link to the span of the producer. That is also its parent, unless the handler runs inside another span.

    A retry continues the trace of the first attempt.

    Args:
        tracer_provider: None: the global one.
        propagator: None: the global one.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, propagator: TextMapPropagator | None = None
    ) -> None:
        self._tracer = trace.get_tracer("qmq", tracer_provider=tracer_provider)
        self._propagator = propagate.get_global_textmap() if propagator is None else propagator
        self._processing: ProcessState[tuple[Span, Any]] = ProcessState("qmq_opentelemetry_span")

    def before_send(self, message: OutgoingMessage) -> None:
        creation = self._creation_context(message.properties)
        span = self._start("send", message, creation, kind=SpanKind.PRODUCER, attributes={})
        message.state[self] = span
        if creation is None:
            self._propagator.inject(message.properties, context=trace.set_span_in_context(span))

    def after_send(self, message: OutgoingMessage, outcome: Receipt | SendFailed) -> None:
        span = cast("Span | None", message.state.pop(self, None))
        if span is None:
            return
        if isinstance(outcome, SendFailed):
            _set_error(span, outcome)
        span.end()

    def before_process(self, delivery: Delivery) -> None:
        properties = delivery.message.properties
        creation = self._creation_context(properties)
        parent = context.get_current()
        if not trace.get_current_span().get_span_context().is_valid:
            parent = self._propagator.extract(properties, context=parent)
        of_group: dict[str, str | int] = {
            "messaging.consumer.group.name": delivery.group,
            "qmq.attempt": delivery.attempt,
        }
        span = self._start("process", delivery, creation, kind=SpanKind.CONSUMER, attributes=of_group, context=parent)
        token = context.attach(trace.set_span_in_context(span, parent))
        self._processing.begin(delivery, (span, token))

    def after_process(self, delivery: Delivery, error: BaseException | None) -> None:
        found = self._processing.end(delivery)
        if found is None:
            return
        span, token = found
        context.detach(token)
        if error is not None:
            span.record_exception(error)
            _set_error(span, error)
        span.end()

    def _start(
        self,
        operation: str,
        about: OutgoingMessage | Delivery,
        creation: SpanContext | None,
        *,
        attributes: dict[str, str | int],
        **options: Any,
    ) -> Span:
        shared: dict[str, str | int] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": about.subject,
            "messaging.message.id": about.message_id,
        }
        options["links"] = [] if creation is None else [Link(creation)]
        return self._tracer.start_span(f"{operation} {about.subject}", attributes=shared | attributes, **options)

    def _creation_context(self, properties: dict[str, str]) -> SpanContext | None:
        """The span context in the properties of a message; None if they have none."""
        extracted = self._propagator.extract(properties, context=context.Context())
        found = trace.get_current_span(extracted).get_span_context()
        return found if found.is_valid else None


def _set_error(span: Span, error: BaseException) -> None:
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.set_attribute("error.type", error_type(error))


def error_type(error: BaseException) -> str:
    """Return the code of an error of PyQMQ, and the full name of the class of any other."""
    if isinstance(error, QmqError):
        return error.code
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
