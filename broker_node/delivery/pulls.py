"""PULL: answer with what there is, park what finds nothing, and read what is not in memory in a thread."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from broker_node.delivery.client_table import ClientTable
from broker_node.delivery.delivery import PULL_BYTES_MAX, Delivered, Delivery
from broker_node.delivery.known_requests import KnownRequests
from broker_node.delivery.long_poll import LongPolls, ParkedPull, Sender
from broker_node.delivery.pull_gate import PullGate
from broker_node.delivery.rejections import BrokerRejections, HandlerCounters
from broker_node.delivery.settlement import BeingSettled, Settlement
from broker_node.reads.index_repair import BeingRepaired
from broker_node.storage.disk_work import DiskWork
from qmq.clock import Clock
from qmq.protocol.codes import ResponseCode
from qmq.protocol.commands import PULL_RESPONSE_HEAD, PullRequest
from qmq.protocol.frames import Frame
from qmq.protocol.names import retry_subject
from qmq.supervisor import Supervisor
from qmq_node.commits.committer import Committer
from qmq_node.policy import NodePolicy
from qmq_node.server.connection import Connection

HOLD_SECONDS_MAX = 30.0
"""Longest a pull is held: clients close a connection after 120 s of silence (trap T5)."""
PULL_SEQUENCE_MAX = 1 << 62
"""A pull that claims to have received beyond this can't be honest, and its sequences could not be numbered on."""
COLD_READS_MAX = 64
"""Pulls that wait for the disk at a time; more are answered with nothing and ask again."""


@dataclass(eq=False, repr=False)
class PullHandler:
    """Answers PULL requests."""

    _delivery: Delivery
    _committer: Committer
    _clock: Clock
    _supervisor: Supervisor
    _rejections: BrokerRejections
    _counters: HandlerCounters
    _clients: ClientTable
    _after_settlement: Callable[[Settlement, Connection, Frame], None]
    """Processes a request again, from its beginning, after a settlement has ended."""
    _pull_gate: PullGate = field(default_factory=PullGate, init=False)
    known: KnownRequests = field(default_factory=KnownRequests, init=False)
    _cold: dict[asyncio.Future[None], ParkedPull] = field(default_factory=dict, init=False)
    """Pulls that wait for the disk, at most COLD_READS_MAX."""
    _is_stopping: bool = field(default=False, init=False)
    """Whether pulls that find nothing are answered at once."""

    def __post_init__(self) -> None:
        self.polls = LongPolls(self._clock, self._supervisor, on_expired=self._expired, on_due=self.wake)

    def handle(self, connection: Connection, frame: Frame) -> None:
        """Answer a pull, now or when there is something for it. Raises ProtocolError if it can't be decoded."""
        request = self.known.pull(frame)
        self._counters.pulls += 1
        self._clients.pulled(connection, frame, request)
        if request.limit <= 0 or request.pull_last >= PULL_SEQUENCE_MAX:
            what = f"a pull of {request.limit} messages after {request.pull_last} can't be served"
            self._rejections.count("illegal_pull", connection, what)
            self._rejections.refuse(connection, frame)
            return
        deadline = self._clock.monotonic() + min(request.timeout_ms / 1000, HOLD_SECONDS_MAX)
        self._try(ParkedPull(connection, frame, request, deadline), is_new=True)

    def _try(self, pull: ParkedPull, *, is_new: bool, plan: DiskWork | None = None) -> bool:
        """Answer a pull if there is anything for it, else park it; True when it is answered, or waits for the disk.

        Args:
            plan: what an earlier try needed from the disk, finished.
        """
        end = self._end_of(pull, is_new, plan)
        if end is None:
            return False
        if not is_new:
            self.polls.done(pull)
        end()
        return True

    def _end_of(self, pull: ParkedPull, is_new: bool, plan: DiskWork | None) -> Callable[[], object] | None:
        """Return what ends a pull; None: there is nothing for it, and it is parked."""
        if pull.connection.is_closed:
            return _nothing
        if self._pull_gate:
            if not self._pull_gate.allows(pull.request):
                return partial(self._not_allowed, pull)
            if self._pull_gate.is_paused(pull.request):
                return self._pause(pull) if is_new else None
        try:
            answer = self._delivery.pull(
                pull.request, pull.connection, bytes_max=self._answer_bytes(pull), is_arrival=is_new, plan=plan
            )
        except DiskWork as work:
            return partial(self._read, pull, work, is_new)
        if answer.raws:
            return partial(self._answer, pull, answer)
        if answer.is_full:
            return partial(self._full, pull)
        if answer.retry_at_ms is not None:
            wait = max(0, answer.retry_at_ms - self._clock.wall_ms()) / 1000
            self.polls.wake_at(pull.request.subject, self._clock.monotonic() + wait)
        self._committer.kick()
        if answer.has_more or (is_new and not self._park(pull)):
            nothing = partial(pull.connection.reply, pull.frame, ResponseCode.NO_MESSAGE)
            return partial(self._committer.when_synced, answer.wait_for, nothing)
        return None

    def _park(self, pull: ParkedPull) -> bool:
        """Park a new pull; False if it can't wait."""
        return not self._is_stopping and pull.request.timeout_ms > 0 and self.polls.park(pull)

    def _pause(self, pull: ParkedPull) -> Callable[[], object] | None:
        """Hold a paused consumer's new pull as if there were nothing for it."""
        self._counters.paused_pulls += 1
        self._delivery.touch(pull.request, pull.connection)
        self._committer.kick()
        return None if self._park(pull) else partial(pull.connection.reply, pull.frame, ResponseCode.NO_MESSAGE)

    def _full(self, pull: ParkedPull) -> None:
        """Refuse a pull of a consumer that has too many messages in flight."""
        self._counters.full_pulls += 1
        self._committer.kick()
        self._rejections.refuse(pull.connection, pull.frame)

    def _not_allowed(self, pull: ParkedPull) -> None:
        request = pull.request
        self._counters.policy_refused_pulls += 1
        if self._pull_gate.is_new_refusal(request, self._clock.monotonic()):
            what = f"group {request.group!a} is not among the groups that subject {request.subject!a} allows"
            self._rejections.log("group_not_allowed", pull.connection, what)
        self._rejections.refuse(pull.connection, pull.frame)

    def apply(self, policy: NodePolicy) -> None:
        """Judge pulls by this policy from now on; those whose pause ended are tried at once."""
        for subject, group, _ in self._pull_gate.apply(policy):
            self.wake(subject)
            self.wake(retry_subject(subject, group))

    def is_paused(self, subject: str, group: str, consumer_id: str) -> bool:
        """Whether a consumer, or with "" its whole group, is paused."""
        return self._pull_gate.is_paused(PullRequest(subject, group, consumer_id, 1, -1, -1, -1, False, ()))

    @staticmethod
    def _answer_bytes(pull: ParkedPull) -> int:
        return min(PULL_BYTES_MAX, pull.connection.answer_room)

    def _answer(self, pull: ParkedPull, answer: Delivered) -> None:
        self._clients.delivered(pull.request, len(answer.raws))
        head = PULL_RESPONSE_HEAD.pack(answer.pull_begin, -1)
        body = b"".join([head, *answer.raws])
        connection, session = pull.connection, answer.session
        connection.holds(pull.frame, len(body))
        if session is not None:
            session.answer_mark = -1

        def synced() -> None:
            connection.reply(pull.frame, ResponseCode.SUCCESS, body)
            if session is not None and session.peer is connection:
                session.answer_mark = connection.queued_bytes

        if self._delivery.read_ahead.is_due:
            self._committer.during_sync(self._delivery.read_ahead.read)
        self._committer.when_synced(answer.wait_for, synced)

    def _read(self, pull: ParkedPull, work: DiskWork, is_new: bool) -> None:
        """Read what a pull needs in a thread, then try the pull again."""
        self._counters.cold_pulls += 1
        if len(self._cold) >= COLD_READS_MAX:
            pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            return

        future = self._supervisor.background("cold_read", asyncio.to_thread(work.read))
        self._cold[future] = pull

        def ended(done: "asyncio.Future[None]") -> None:
            self._cold.pop(done, None)
            if done.cancelled():
                return
            try:
                # Also without a connection: a repair records damage.
                if (more := work.finish()) is not None:
                    self._read(pull, more, is_new)
                elif pull.has_left or (not self._try(pull, is_new=is_new, plan=work) and not is_new):
                    pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            except BeingSettled as wait:
                self._wait_or_ask_again(pull, wait.settlement, is_new)
            except BeingRepaired:
                pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            except Exception as failure:  # noqa: BLE001 - every error ends this request only
                self._rejections.fail(pull.connection, pull.frame, failure)
            if not is_new:
                self.wake(pull.request.subject)

        future.add_done_callback(ended)

    def wake(self, subject: str) -> None:
        """Try the waiting pulls of a subject that may have new messages: of each group as many as it has messages for."""
        for group in self.polls.groups(subject):
            pull = self.polls.oldest(subject, group)
            reads = self._counters.cold_pulls
            while pull is not None and self._try_safely(pull) and self._counters.cold_pulls == reads:
                # One that waits for the disk wakes the next when it is answered: they would wait for the same.
                pull = self.polls.oldest(subject, group)
            if pull is not None and self._pull_gate and self._pull_gate.is_paused(pull.request):
                self._wake_behind_paused(pull)

    def _wake_behind_paused(self, paused: ParkedPull) -> None:
        """Try the pulls behind one that its consumer's pause holds; those of a group that is paused as a whole stay."""
        request = paused.request
        if self.is_paused(request.subject, request.group, ""):
            return
        for pull in self.polls.newer(paused):
            if not self._try_safely(pull) and not self._pull_gate.is_paused(pull.request):
                # It found nothing, and neither would those behind it.
                return

    def _try_safely(self, pull: ParkedPull) -> bool:
        try:
            return self._try(pull, is_new=False)
        except BeingSettled as wait:
            self.polls.done(pull)
            self._wait_or_ask_again(pull, wait.settlement, is_arrival=False)
            return True
        except Exception as error:  # noqa: BLE001 - every error ends this request only
            self.polls.done(pull)
            self._rejections.fail(pull.connection, pull.frame, error)
            return True

    def _wait_or_ask_again(self, pull: ParkedPull, settlement: Settlement, is_arrival: bool) -> None:
        """Take a pull again after a settlement. One that was held is answered with nothing instead: taken again as a new pull it
        would get what another pull of its sender has received since."""
        if is_arrival:
            self._after_settlement(settlement, pull.connection, pull.frame)
        else:
            pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)

    def _expired(self, pull: ParkedPull) -> None:
        self.polls.done(pull)
        pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)

    def leave(self, sender: Sender) -> None:
        """Answer the waiting pulls of a consumer that leaves with nothing: messages that they got from now on would be delivered to
        others only when the consumer's lease has ended."""
        for pull in self.polls.of(sender):
            self._expired(pull)
        for pull in self._cold.values():
            if pull.sender == sender:
                pull.has_left = True

    def hold(self) -> None:
        """Answer every waiting pull with nothing, and let none wait until `resume`."""
        self._is_stopping = True
        self.polls.end_all()

    def resume(self) -> None:
        """Let pulls wait for messages again."""
        self._is_stopping = False

    def stop(self) -> None:
        """Answer every waiting pull with nothing, and hold none any more."""
        self._is_stopping = True
        self.polls.give_up_all()


def _nothing() -> None:
    """End a pull whose connection is closed."""
