"""Every error a user or a peer can meet.

Each carries a stable dotted `code`, whether the same call may succeed later (`retriable`), and a sentence that says what
was wrong, with which value, and what to do. Loops ask the flag; they never list classes.
"""


class QmqError(Exception):
    """The root of the tree."""

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
    """We were asked to send what the wire format can't carry."""

    code = "protocol.misuse"


class IllegalName(QmqError):
    """A subject, group or consumer id breaks a naming rule. `code` names which kind of name."""

    code = "name.illegal"


# --- net ------------------------------------------------------------------------------------------------------------


class ConnectionLost(QmqError):
    """The connection ended before the answer came; whether the request took effect is unknown."""

    code = "net.connection_lost"
    retriable = True


class CallTimeout(QmqError):
    """No answer in time; whether the request took effect is unknown."""

    code = "net.timeout"
    retriable = True


class AuthenticationFailed(QmqError):
    """A process does not know the node secret of this system, or this process does not know the other's."""

    code = "auth.refused"


# --- process --------------------------------------------------------------------------------------------------------


class CriticalTaskFailed(QmqError):
    """A task that the process can't do without failed or ended. `__cause__` is its exception, if it raised one."""

    code = "process.critical_task_failed"


class CommitNotApplied(QmqError):
    """A commit is on disk and could not be applied in memory. `__cause__` is the exception. The process must end."""

    code = "process.commit_not_applied"


# --- log ------------------------------------------------------------------------------------------------------------


class LogError(QmqError):
    """The storage engine can't go on, or can't do what it was asked."""

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
    """More messages wait to be sent than the producer keeps: wait, or send slower, or raise the limit."""

    code = "client.queue_full"
    retriable = True


class SendFailed(QmqError):
    """A message was not stored, or it is unknown whether it was; the message says which, and the last cause."""

    code = "client.send_failed"


class ConsumeFailed(QmqError):
    """A broker cannot serve a consumer as it is configured, and the same pull again would not help; `code` says why:
    `client.start_unsupported`, `client.message_too_large`."""

    code = "client.consume_failed"


class RouteUnknown(QmqError):
    """The metaserver named no broker group that can be used, or can't be reached."""

    code = "client.route_unknown"
    retriable = True


class ClientClosed(QmqError):
    """The producer or consumer was closed, or not started."""

    code = "client.closed"


class ClientFailed(QmqError):
    """A background task of a producer or consumer failed, so the client can't continue; close it and make a new one.

    The message names the task; the task's exception is the cause.
    """

    code = "client.failed"


class DeliveryAlreadySettled(QmqError):
    """A delivery was acked or sent back before."""

    code = "client.delivery_settled"


class ReadRefused(QmqError):
    """A node does not let itself be read in bulk; `code` says why (`qmq.protocol.reading`)."""

    code = "reading.refused"


# --- daemon and metaserver ------------------------------------------------------------------------------------------


class SettingError(QmqError):
    """A flag, environment variable or configuration value is wrong; the message names it and its legal values."""

    code = "setting.wrong"
