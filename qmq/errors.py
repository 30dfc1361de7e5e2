"""All errors of PyQMQ.

Each carries a stable dotted `code`, whether the same call may succeed later (`retriable`), and a sentence that says what
was wrong, with which value, and what to do. Loops check the flag and do not list classes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmq.receipt import Receipt


class QmqError(Exception):
    """Base class of all PyQMQ errors."""

    code = "qmq.error"
    retriable = False

    def __init__(self, message: str, *, code: str | None = None, retriable: bool | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if retriable is not None:
            self.retriable = retriable


# --- protocol -------------------------------------------------------------------------------------------------------


class ProtocolError(QmqError):
    """The peer sent bytes that break the wire format. The connection they came on can't be trusted any more."""

    code = "protocol.violation"


class LocalProtocolError(QmqError):
    """The message or argument can't be sent: the wire format does not allow it."""

    code = "protocol.misuse"


class IllegalName(QmqError):
    """The name of a subject, group or consumer ID is invalid. `code` says which kind of name."""

    code = "name.illegal"


# --- net ------------------------------------------------------------------------------------------------------------


class ConnectionLost(QmqError):
    """The connection ended before the response arrived. It is unknown whether the request took effect."""

    code = "net.connection_lost"
    retriable = True


class Unreachable(ConnectionLost):
    """No connection could be opened, or no response arrived in time. `reason` says why, without the address."""

    code = "net.unreachable"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} can't be reached: {reason}")
        self.reason = reason


class CallTimeout(QmqError):
    """No response in time. It is unknown whether the request took effect."""

    code = "net.timeout"
    retriable = True


class AuthenticationFailed(QmqError):
    """The node secret of this process and that of the other side differ, or one of them has none."""

    code = "auth.refused"


# --- process --------------------------------------------------------------------------------------------------------


class CriticalTaskFailed(QmqError):
    """A task that the process requires failed or ended. `__cause__` is its exception, if it raised one."""

    code = "process.critical_task_failed"


class CommitNotApplied(QmqError):
    """A commit is on disk and could not be applied in memory. `__cause__` is the exception. The process must end."""

    code = "process.commit_not_applied"


# --- log ------------------------------------------------------------------------------------------------------------


class LogError(QmqError):
    """The storage engine has failed, or can't execute the operation."""

    code = "log.error"


class NoSpace(LogError):
    """The disk has no space for a record. Nothing was written; the same call succeeds once there is space."""

    code = "log.no_space"
    retriable = True


class ReadFailed(LogError):
    """The disk returned an error for a read of the log (such as EIO). The content is unknown; a later read may succeed."""

    code = "log.read_failed"
    retriable = True


# --- client ---------------------------------------------------------------------------------------------------------


class QueueFull(QmqError):
    """The producer's queue is full. Wait, send more slowly, or raise `Limits.queue_messages`."""

    code = "client.queue_full"
    retriable = True


class SendFailed(QmqError):
    """A message was not stored, or it is unknown whether it was. The text says which, and names the last cause."""

    code = "client.send_failed"


class SendManyFailed(SendFailed):
    """Some messages of a `send_many` were not stored.

    Attributes:
        outcomes: in the order of the bodies, the receipt of each message that is stored, or its error.
    """

    code = "client.send_many_failed"

    def __init__(self, outcomes: "Sequence[Receipt | QmqError]") -> None:
        errors = [outcome for outcome in outcomes if isinstance(outcome, QmqError)]
        super().__init__(
            f"{len(errors)} of {len(outcomes)} messages failed; `outcomes` has the receipt or error of each. First: {errors[0]}",
            retriable=all(error.retriable for error in errors),
        )
        self.outcomes = list(outcomes)


class ConsumeFailed(QmqError):
    """A broker cannot serve a consumer as it is configured: `client.start_unsupported`, `client.message_too_large`."""

    code = "client.consume_failed"


class RouteUnknown(QmqError):
    """The metaserver can't be reached, or has no usable broker group for the subject."""

    code = "client.route_unknown"
    retriable = True


class ClientClosed(QmqError):
    """The producer or consumer is closed or not started."""

    code = "client.closed"


class ClientFailed(QmqError):
    """A background task of a producer or consumer failed, which the message names. Close the client and create another one."""

    code = "client.failed"


class ClientForked(ClientFailed):
    """The client was started before this process was forked. Create and start it in the child process."""

    code = "client.forked"


class DeliveryAlreadySettled(QmqError):
    """The delivery was already acknowledged or retried."""

    code = "client.delivery_settled"


class BodyUndecodable(QmqError):
    """The body of a message can't be decoded as requested. `field` is the path of the field that does not fit, "" for the
    whole body; `code` says why: `body.undecodable`, `body.too_large`, `body.codec_missing`, `body.type_unsupported`."""

    code = "body.undecodable"

    def __init__(self, message: str, *, code: str | None = None, field: str = "") -> None:
        super().__init__(message, code=code)
        self.field = field


class ReadRefused(QmqError):
    """The node rejects bulk reads; `code` says why (`qmq.protocol.bulk_read`)."""

    code = "reading.refused"


# --- idempotent consumption -----------------------------------------------------------------------------------------


class KeyInvalid(QmqError):
    """The key of a delivery can't be stored in a marker; `code` says why: `idempotent.key_missing`, `idempotent.key_empty`,
    `idempotent.key_type`, `idempotent.key_too_long`."""

    code = "idempotent.key_invalid"


class MarkerFailed(QmqError):
    """A marker is not in the transaction in which its effect is committed; `code` says why: `idempotent.transaction_open`,
    `idempotent.no_transaction`, `idempotent.marker_lost`, `idempotent.key_collision`."""

    code = "idempotent.marker_failed"


class LeaseHeld(QmqError):
    """Another consumer processes this message, or did and ended: its lease in Redis has not expired. The delivery is retried."""

    code = "idempotent.lease_held"
    retriable = True


# --- outbox ---------------------------------------------------------------------------------------------------------


class ContentInvalid(QmqError):
    """The content of an outbox row is no message that a broker could accept."""

    code = "outbox.content_invalid"


class DatabaseFailed(QmqError):
    """A database of an application could not be reached, or failed a statement.

    `code` says why: `database.unreachable`, `database.timeout`, `database.access_denied`, `database.table_missing`,
    `database.table_differs`, `database.conflict` (a deadlock or lock timeout), `database.driver_missing`,
    `database.statement_failed`.
    """

    code = "database.statement_failed"


# --- daemon and metaserver ------------------------------------------------------------------------------------------


class CountDiffers(QmqError):
    """A change of many messages would affect another number of them than expected; nothing was changed."""

    code = "delayed.count_differs"


class SettingError(QmqError):
    """A flag, environment variable or configuration value is invalid. The text names it and its valid values."""

    code = "setting.wrong"
