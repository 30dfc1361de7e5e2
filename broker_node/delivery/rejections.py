"""Requests that a broker can't serve: pulls get answers of their own, and late."""

import logging
from collections import Counter
from dataclasses import dataclass

from broker_node.storage.subject_table import LimitReached
from qmq.clock import Clock
from qmq.errors import IllegalName, ProtocolError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.frames import Frame
from qmq.protocol.scan import BadChecksum
from qmq.supervisor import Supervisor
from qmq_node.process.counters import counted, counted_by
from qmq_node.requests.handlers import Rejections
from qmq_node.requests.sends import SendCounters
from qmq_node.server.connection import Connection

logger = logging.getLogger("qmq.broker.handlers")

ERROR_HOLD_SECONDS = 1.0
"""A pull refused for its parameters is answered this late: push consumers ask again at once (trap T4)."""


@dataclass(slots=True)
class HandlerCounters(SendCounters):
    """Counts since start, for metrics."""

    send_failures: Counter[str] = counted_by(
        "result", "refused_messages", "Rejected messages (storeMessageErrorCount, brokerReadOnlyMessageCount)"
    )
    pulls: int = counted("pull_requests", "Pulls (pullRequestCount)")
    acks: int = counted("ack_requests", "Acks (ackRequestCount)")
    cold_pulls: int = counted("cold_pulls", "Pulls that waited for the disk")
    policy_refused_pulls: int = counted("policy_refused_pulls", "Pulls of groups that a policy does not allow")
    paused_pulls: int = counted("paused_pulls", "Pulls paused by a policy")
    full_pulls: int = counted("full_pulls", "Pulls of consumers with too many messages in flight")


class BrokerRejections(Rejections):
    """As of every daemon; a pull is answered late, because its sender asks again at once."""

    def __init__(self, counters: HandlerCounters, clock: Clock, supervisor: Supervisor) -> None:
        super().__init__(counters, clock, logger, {LimitReached: "limit_reached"})
        self._supervisor = supervisor
        self.is_stopping = False
        """Refused pulls are answered at once from now on."""

    def refuse(self, connection: Connection, frame: Frame, error: Exception | None = None) -> None:
        if frame.code != Command.PULL_MESSAGE:
            super().refuse(connection, frame, error)
            return
        is_undecodable = isinstance(error, ProtocolError) and not isinstance(error, BadChecksum | IllegalName)
        code = ResponseCode.BROKER_ERROR if is_undecodable else ResponseCode.NO_MESSAGE
        if self.is_stopping:
            connection.reply(frame, code)
        else:
            self._supervisor.later(ERROR_HOLD_SECONDS, "held_refusal", lambda: connection.reply(frame, code))
