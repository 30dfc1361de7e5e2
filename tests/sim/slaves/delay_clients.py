"""Clients of a delay group, on the bare protocol: they connect to any member that lets them, also to an old master.

Each changes only its own messages, one after the other. A request without an answer may be done much later.
"""

from collections.abc import Iterable

from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import decode_send_response
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayedChange,
    DelayedItem,
    DelayedPage,
    DelayedState,
    DelayedTarget,
    FindDelayedRequest,
    ListDelayedRequest,
    Operation,
    Outcome,
)
from qmq.protocol.frames import Frame
from qmq.protocol.messages import FLAG_DELAY, KEY_SCHEDULE, Message, encode_entry
from tests.sim.slaves.clients import Address
from tests.sim.slaves.deliveries import POISON, Delayed, Deliveries
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import History, Sent
from tests.sim.swarm.workload import RAW_SECONDS, Actor, true_ms
from tests.sim.world.cluster import Cluster

SIZES = (10, 10, 100, 300, 1000)
"""Bytes of messages."""
BATCHES = (1, 1, 1, 2, 3, 8)
FAR_MS = (3 * 3_600_000, 40 * 3_600_000)
"""How far ahead are messages that stay in an hour that is not loaded."""
LATEST_MS = 8_000
"""How far ahead the others are at most."""
POISONS = 0.03
LIMIT_MS = 1 << 47
GROUPS = 5
"""Messages of a client have one of so many values of a property, by which it cancels many at once."""


class DelaySender(Actor):
    """Schedules messages, changes them, and looks them up."""

    def __init__(
        self, cluster: Cluster, history: History, watch: GroupWatch, deliveries: Deliveries, name: str,
        subjects: list[str], group: str, pause: float,
    ) -> None:  # fmt: skip
        super().__init__(cluster, history, name)
        self._watch, self._deliveries = watch, deliveries
        self._subjects = subjects
        self._pause = pause
        self._address = Address(cluster, group, self.rng)
        self._count = 0
        self._sent: list[Delayed] = []
        """Its messages that may still be changed."""
        self._doubtful: Delayed | None = None
        """What it has requested a change of without an answer; it is looked up next."""

    async def run(self) -> None:
        while not self.stopping.is_set():
            caller = Caller("127.0.0.1", self._address.port, connect_seconds=1.0)
            try:
                await caller.connect()
                while not self.stopping.is_set() and not caller.is_closed and await self._request(caller):
                    await self.nap(self.rng.expovariate(1 / self._pause))
            except QmqError:
                pass
            finally:
                await caller.close()
            await self.nap(self.rng.random() * 0.5)

    async def _request(self, caller: Caller) -> bool:
        """Make one request; False if another member should be asked."""
        if (doubtful := self._doubtful) is not None:
            self._doubtful = None
            return await self._find(caller, doubtful)
        if not self._sent or (kind := self.rng.random()) < 0.55:
            return await self._send(caller)
        chosen = self.rng.choice(self._sent[-20:])
        if kind < 0.85:
            return await self._change(caller, chosen)
        if kind < 0.97:
            return await self._find(caller, chosen)
        return await self._cancel_group(caller)

    # --- sends -----------------------------------------------------------------------------------------------------

    async def _send(self, caller: Caller) -> bool:
        batch = [self._message() for _ in range(self.rng.choice(BATCHES))]
        body = b"".join(encode_entry(message) for message in batch)
        frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=RAW_SECONDS)
        if frame.code != ResponseCode.SUCCESS:
            return False
        failures = decode_send_response(frame.body)
        for message in batch:
            sent, failure = self.history.sent[message.message_id], failures.get(message.message_id)
            if failure is None:
                sent.is_acked = True
                self._watch.seen(message.message_id, "acknowledged")
            elif failure.result != SendResult.MESSAGE_DUPLICATE:
                sent.is_refused = True
        return not failures

    def _message(self) -> Message:
        self._count += 1
        now = true_ms(self.cluster)
        message_id = f"{self.name}.{self.starts}.{self._count}"
        due_ms = now + self._delay_ms()
        data = f"<{message_id}>" + "x" * self.rng.choice(SIZES)
        properties = {
            "qmq_createTime": str(now),
            "data": data,
            "group": f"{self.name}.{self._count % GROUPS}",
            KEY_SCHEDULE: str(due_ms),
        }
        if self.rng.random() < POISONS:
            properties[POISON] = "1"
        sent = Sent(message_id, self.rng.choice(self._subjects), properties, (), now, due_ms)
        self._sent.append(self._deliveries.send(sent))
        return Message(sent.subject, message_id, properties, (), FLAG_DELAY, now, due_ms)

    def _delay_ms(self) -> int:
        kind = self.rng.random()
        if kind < 0.1:
            return self.rng.randint(*FAR_MS)
        return self.rng.randint(-100, 1_500) if kind < 0.5 else self.rng.randint(500, LATEST_MS)

    # --- changes ---------------------------------------------------------------------------------------------------

    async def _change(self, caller: Caller, chosen: Delayed) -> bool:
        operation = self.rng.choice((Operation.CANCEL, Operation.CANCEL, Operation.RESCHEDULE, Operation.DELIVER))
        sent, due_ms = chosen.sent, -1
        may_be_cancelled = sent.may_be_cancelled
        if operation is Operation.CANCEL:
            sent.may_be_cancelled = True
        else:
            due_ms = true_ms(self.cluster) + self._delay_ms() if operation is Operation.RESCHEDULE else -1
            chosen.unknown_dues_ms.append(due_ms)
        known_ms = sent.due_ms if sent.due_ms is not None and self.rng.random() < 0.8 else -1
        target = DelayedTarget(sent.message_id, sent.subject, known_ms)
        request = ChangeDelayedRequest(operation, due_ms, (target,))
        self._doubtful = chosen
        frame = await caller.call(Command.CHANGE_DELAYED, request.encode(), timeout_s=RAW_SECONDS)
        self._doubtful = None
        if frame.code == ResponseCode.SUCCESS:
            (change,) = ChangeDelayedResponse.decode(frame.body).changes
            self._changed(chosen, operation, change)
            if operation is Operation.CANCEL:
                # An earlier one without an answer may still be done.
                sent.may_be_cancelled = may_be_cancelled and change.outcome not in (Outcome.DONE, Outcome.UNCHANGED)
            else:
                chosen.unknown_dues_ms.remove(due_ms)
            return True
        return self._was_not_done(frame)

    def _changed(self, chosen: Delayed, operation: Operation, change: DelayedChange) -> None:
        """A change was answered."""
        self.history.counts[change.outcome.value] = self.history.counts.get(change.outcome.value, 0) + 1
        if change.outcome is Outcome.NOT_FOUND:
            return
        self._watch.seen(chosen.sent.message_id, f"found by {operation.value}")
        if change.outcome is Outcome.DONE:
            self._deliveries.changed(chosen, operation.value)
        if operation is Operation.CANCEL and change.outcome in (Outcome.DONE, Outcome.UNCHANGED):
            self._cancelled(chosen)
        elif operation is not Operation.CANCEL and change.outcome is Outcome.DONE:
            chosen.sent.due_ms = change.due_ms

    def _cancelled(self, chosen: Delayed) -> None:
        chosen.sent.cancelled_ms = true_ms(self.cluster)
        self._sent.remove(chosen)

    async def _cancel_group(self, caller: Caller) -> bool:
        """Cancel many at once. Which they were is not answered."""
        subject, group = self.rng.choice(self._subjects), f"{self.name}.{self.rng.randrange(GROUPS)}"
        matching = [
            found
            for found in self._sent
            if found.sent.subject == subject and found.sent.properties["group"] == group and not found.delivered
        ]
        for found in matching:
            found.sent.may_be_cancelled = True
        query = ListDelayedRequest(subject, 0, LIMIT_MS, match={"group": group})
        request = CancelDelayedRequest(query, dry_run=False)
        frame = await caller.call(Command.CANCEL_DELAYED, request.encode(), timeout_s=RAW_SECONDS)
        if frame.code != ResponseCode.SUCCESS:
            return self._was_not_done(frame)
        answer = CancelDelayedResponse.decode(frame.body)
        self.history.counts["cancelled together"] = self.history.counts.get("cancelled together", 0) + answer.cancelled
        return True

    def _was_not_done(self, frame: Frame) -> bool:
        """A request was refused; its effect is unknown. Whether the same member may be asked again."""
        return frame.code == ResponseCode.PARAM_ERROR

    # --- lookups ---------------------------------------------------------------------------------------------------

    async def _find(self, caller: Caller, chosen: Delayed) -> bool:
        sent = chosen.sent
        target = DelayedTarget(sent.message_id, sent.subject, self.rng.choice((-1, sent.due_ms or -1)))
        request = FindDelayedRequest(target)
        frame = await caller.call(Command.FIND_DELAYED, request.encode(), timeout_s=RAW_SECONDS)
        if frame.code != ResponseCode.SUCCESS:
            return self._was_not_done(frame)
        self._shown(chosen, DelayedPage.decode(frame.body).items)
        return True

    def _shown(self, chosen: Delayed, items: Iterable[DelayedItem]) -> None:
        """A lookup shows only what no failover undoes."""
        for item in items:
            self._watch.seen(chosen.sent.message_id, "shown")
            if item.state is not DelayedState.CANCELLED:
                continue
            if chosen.sent.may_be_cancelled:
                chosen.sent.may_be_cancelled = False
                self._cancelled(chosen)
            elif chosen.sent.cancelled_ms is None:
                self._watch.report("shown", f"{chosen.sent.message_id} is shown as cancelled, and never was")

    # --- the end ---------------------------------------------------------------------------------------------------

    async def end_all(self, caller: Caller) -> None:
        """Have delivered what is far ahead, and what was sent without an answer; of what is held, cancel a part."""
        # One that a broker refuses may have been stored before, when that was not answered.
        messages = self._deliveries.messages.values()
        left = [found for found in messages if not found.delivered or POISON in found.sent.properties]
        cancelled = [found for found in left if POISON in found.sent.properties and self.rng.random() < 0.3]
        for found in cancelled:
            found.sent.may_be_cancelled = True
        for found in left:
            found.unknown_dues_ms.append(-1)
        for operation, some in ((Operation.CANCEL, cancelled), (Operation.DELIVER, left)):
            for begin in range(0, len(some), 500):
                targets = tuple(
                    DelayedTarget(found.sent.message_id, found.sent.subject) for found in some[begin : begin + 500]
                )
                request = ChangeDelayedRequest(operation, -1, targets)
                await caller.call(Command.CHANGE_DELAYED, request.encode(), timeout_s=RAW_SECONDS)
