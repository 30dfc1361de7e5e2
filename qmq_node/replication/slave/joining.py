"""class Joining: how a session of a slave begins: what it states of its log, and what it makes of the master's answer."""

import asyncio
from dataclasses import dataclass

from qmq.errors import ConnectionLost, LogError, ProtocolError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, FollowResult, ResponseCode
from qmq.protocol.replication import COMMITS_BYTES_MAX, EPOCHS_MAX, FollowRequest, FollowResponse
from qmq_node.commits.applying import Applying
from qmq_node.log.log import SegmentedLog
from qmq_node.log.truncation import Truncation
from qmq_node.replication.rules.following import TruncationRejected, check_truncation
from qmq_node.replication.rules.slave import Slave
from qmq_node.replication.slave.follow_outcomes import Diverged, FollowerIdentity, MasterAlarm, MustCopy
from qmq_node.replication.slave.slave_copy import SlaveCopy

WINDOW_BYTES = 64 << 20
"""Bytes of commits that the master may send before they are confirmed."""
FOLLOW_SECONDS = 10.0
"""Time limit for the answer to FOLLOW. The master may have to read a segment for the CRC of a commit."""

_ALARMS = (FollowResult.OTHER_PROMOTION, FollowResult.END_BEYOND, FollowResult.CRC_DIFFERS)
"""Answers after which another session would be answered the same."""


@dataclass(eq=False, repr=False)
class Joining:
    """Sends FOLLOW, and checks that this log continues as the master's does."""

    _log: SegmentedLog
    _identity: FollowerIdentity
    _applying: Applying
    _copy: SlaveCopy
    _requests_time: bool
    """Whether the master is requested to state the time of the group."""

    async def follow(self, caller: Caller) -> FollowResponse:
        """Return the answer of a master that accepts this slave.

        Raises:
            MustCopy: the master's log begins behind the end of this one.
            MasterAlarm: the master says that a rule was broken.
            QmqError: the master does not accept this slave now, or does not answer.
        """
        log, identity = self._log, self._identity
        request = FollowRequest(
            identity.broker_group,
            identity.node_id,
            identity.boot_id,
            identity.epoch,
            identity.promotion_id,
            log.written_end,
            await self.crc_at(log.written_end),
            WINDOW_BYTES,
            self._copy.state_offset,
            tuple(log.epochs)[-EPOCHS_MAX:],
            identity.incarnation,
            requests_time=self._requests_time,
        )
        frame = await caller.call(Command.FOLLOW, request.encode(), timeout_s=FOLLOW_SECONDS)
        if frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"the master answered FOLLOW with code {frame.code}")
        answer = FollowResponse.decode(frame.body)
        if answer.result in _ALARMS:
            text = f"the master rejects this slave: {answer.result.name}: {answer.reason}"
            raise MasterAlarm(text, answer.result)
        if answer.result is FollowResult.TOO_FAR_BEHIND:
            raise MustCopy(answer.reason)
        if answer.result is not FollowResult.ACCEPTED:
            raise ConnectionLost(f"the master does not accept this slave: {answer.result.name}: {answer.reason}")
        if answer.states_time and not self._requests_time:
            raise ProtocolError("FollowResponse.states_time: the master states times that were not requested")
        return answer

    async def check(self, answer: FollowResponse) -> None:
        """Check that both logs are equal up to `keep_to`, where this one ends.

        Raises:
            Diverged: this log has other commits behind `keep_to`, and is to be truncated.
            MasterAlarm: the logs differ where they must not, or acknowledged commits would be truncated.
            QmqError: the answer makes no sense.
        """
        log, identity, keep_to = self._log, self._identity, answer.keep_to
        if self._copy.state_offset and not log.written_end:
            # The first commit that arrives has no predecessor here.
            return
        if 0 < self._copy.state_offset < log.begin:
            raise MustCopy(f"this log begins at {log.begin}, behind the master's state at {self._copy.state_offset}")
        if keep_to > log.written_end:
            raise ProtocolError(f"the master keeps {keep_to} bytes of this log, which ends at {log.written_end}")
        if 0 < keep_to <= log.begin and keep_to < log.written_end:
            if not self._copy.applies:
                # All of it is a copy, of a master that had other commits.
                raise MustCopy(f"this log begins at {log.begin}, and the master's continues it from {keep_to} on")
            # Retention has removed only what is confirmed.
            raise MasterAlarm(
                f"the master keeps {keep_to} bytes of this log, which begins at {log.begin}: everything below is confirmed"
            )
        if await self.crc_at(keep_to) != answer.keep_to_crc:
            raise MasterAlarm(
                f"this log and the master's differ below offset {keep_to}, where both have commits of the same epoch"
            )
        if keep_to < log.written_end:
            known = min(self._applying.known_high_watermark, log.written_end)
            try:
                check_truncation(keep_to, known, log.epochs.last_epoch, identity.epoch)
            except TruncationRejected as rejected:
                raise MasterAlarm(str(rejected)) from rejected
            raise Diverged(Truncation(keep_to, answer.keep_to_crc, identity.epoch, identity.promotion_id))

    def slave(self, answer: FollowResponse) -> Slave:
        """Return the state of the session that begins with this answer, which was checked."""
        return Slave(
            self._identity.epoch,
            self._identity.promotion_id,
            answer.session,
            answer.keep_to,
            self._log.synced_end,
            self._applying.known_high_watermark,
            is_copying=self._copy.is_copying,
        )

    async def crc_at(self, end: int) -> int:
        """Return the CRC of the commit that ends at a log offset, 0 at the beginning. Raises LogError if there is none."""
        if end == 0:
            return 0
        crc = self._log.crc_at(end)
        if crc is None:
            crc = await asyncio.get_running_loop().run_in_executor(None, self._log.stored.read_crc_at, end)
        if crc is None:
            raise LogError(f"no commit of this log ends at offset {end}")
        return crc


def check_window(pending_bytes: int) -> None:
    """Raise ProtocolError if the master has sent more than it may before a confirmation."""
    if pending_bytes > WINDOW_BYTES + COMMITS_BYTES_MAX:
        raise ProtocolError(
            f"the master has sent {pending_bytes} bytes that are not written yet, the window is {WINDOW_BYTES}"
        )
