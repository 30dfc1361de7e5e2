"""class KnownGroups: after a loss of data, the consumer groups that were known exist again before the broker accepts messages.

A group begins at the end of a subject when it first pulls there. So what is sent to an empty broker before its groups have pulled
would never reach them, and the broker would look empty to a drain. Metaservers know the groups: they have the registrations of
consumers in their database.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from broker_node.delivery.group_position import set_position
from broker_node.recovery.broker_data import BrokerData
from broker_node.storage.disk_work import completed
from broker_node.storage.subject import Group, Subject
from qmq.errors import IllegalName, ProtocolError, QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import KnownGroupsRequest, KnownGroupsResponse
from qmq.protocol.names import retry_subject
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.daemon.part import Part
from qmq_node.member.replication import Replication
from qmq_node.metaservers.metaserver_session import MetaserverSession
from qmq_node.node.node import Node
from qmq_node.slices import Pacer

CHECK_SECONDS = 1.0
"""How often the groups are requested until they are there."""
PREPARE_SECONDS = 2.0
"""How long a node tries to create them before it serves. Then it serves without accepting messages."""
REQUEST_SECONDS = 8.0
"""Time limit for one request. The metaserver waits for its database."""
GROUPS_PER_SLICE = 200
"""Groups that are looked up, or created, in one turn of the event loop."""

logger = logging.getLogger("qmq.broker")


class KnownGroups(Part):
    """Requests the groups of the node's subjects, and creates those that are missing.

    A node without metaservers creates none: only metaservers know them.
    """

    def __init__(self, node: Node, replication: Replication, data: BrokerData) -> None:
        self._node = node
        self._replication = replication
        self._data = data
        self._registration, self._replica = node.registration, node.folder.replica
        self._problem = Reason.of(Code.GROUPS_REQUESTED)
        """Why they are not created yet."""
        self._registration.groups_refuse = self.refusal

    def refusal(self) -> Reason:
        """Why no messages are accepted; "" if all groups that were known are there."""
        return Reason.of(Code.LACKS_GROUPS, why=self._problem) if self._is_needed else NO_REASON

    async def prepare(self) -> None:
        if self._is_needed and self._sessions():
            try:
                async with asyncio.timeout(PREPARE_SECONDS):
                    await self._check()
            except TimeoutError:
                logger.warning("this node begins to serve, and accepts no messages yet: %s", self.refusal())

    def run(self) -> None:
        if self._registration.urls:
            self._node.supervisor.every(CHECK_SECONDS, "known_groups", self._check)

    @property
    def _loss_id(self) -> str:
        """Identifies the newest possible loss; the newest membership names it before that is stored."""
        membership, state = self._replication.member.membership, self._replica.state
        is_unknown = membership is not None and state.has_unknown_loss(membership.loss_id)
        return membership.loss_id if membership is not None and is_unknown else state.loss_id

    @property
    def _is_needed(self) -> bool:
        return self._loss_id != self._replica.state.groups_loss_id and bool(self._registration.urls)

    async def _check(self) -> None:
        """Create the groups if some may be missing. What does not succeed is tried again, for as long as it takes."""
        # With an older folder, an operator has to accept the loss first: the newest folder may be put back.
        if not self._is_needed or self._registration.older_folder:
            return
        loss_id = self._loss_id
        try:
            await asyncio.to_thread(self._replica.note_loss, loss_id)
            created = await self._create(await self._requested())
            await asyncio.to_thread(self._replica.groups_created, loss_id)
        except QmqError as error:
            if str(error) != self._problem:
                logger.error(
                    "consumer groups that may be missing can't be created, no messages are accepted: %s", error
                )
            self._problem = Reason(str(error))
            return
        if created:
            logger.info("%d consumer groups that were missing were created", created)
        self._replication.sends_checked()

    # --- requests --------------------------------------------------------------------------------------------------

    def _sessions(self) -> list[MetaserverSession]:
        """The metaservers that this node is connected to."""
        metaservers = self._registration.metaservers
        found = metaservers.in_order() if metaservers is not None else []
        return [session for session in found if session.caller is not None and not session.caller.is_closed]

    async def _requested(self) -> list[tuple[str, str]]:
        """Return subject and name of all groups, as one metaserver knows them. Raises QmqError if none can say."""
        problem: QmqError = QmqError("this node is connected to no metaserver")
        for session in self._sessions():
            try:
                return await self._requested_from(session)
            except QmqError as error:
                problem = QmqError(f"metaserver {session.url}: {error}")
        raise problem

    async def _requested_from(self, session: MetaserverSession) -> list[tuple[str, str]]:
        broker_group = self._node.options.broker_group
        found: list[tuple[str, str]] = []
        after = 0
        while True:
            if session.caller is None:
                raise QmqError("the connection ended")
            request = KnownGroupsRequest(broker_group, self._node.node_id, after)
            frame = await session.caller.call(Command.KNOWN_GROUPS, request.encode(), timeout_s=REQUEST_SECONDS)
            if frame.code != ResponseCode.SUCCESS:
                raise ProtocolError(f"it answered the request for consumer groups with code {frame.code}")
            page = KnownGroupsResponse.decode(frame.body)
            if page.broker_group != broker_group:
                raise ProtocolError(f"it returned the consumer groups of broker group {page.broker_group}")
            if page.problem:
                raise QmqError(page.problem)
            found += page.groups
            if not page.next:
                return found
            if page.next <= after:
                raise ProtocolError(
                    f"its page of consumer groups after {after} is followed by the one after {page.next}"
                )
            after = page.next

    # --- creation --------------------------------------------------------------------------------------------------

    async def _create(self, groups: Sequence[tuple[str, str]]) -> int:
        """Create the groups that are missing, and wait until every member of the in-sync set has them; how many they were.

        Raises QmqError if one can't be created, such as LimitReached, or the log fails.
        """
        store, pacer, created, offset = self._data.store, Pacer(GROUPS_PER_SLICE), 0, -1
        for name, group in groups:
            await pacer.spend()
            try:
                # A group reads its retry subject from its beginning, and the first retry creates that.
                retry = store.subjects.get(retry_subject(name, group))
                for subject, start in ((store.subject(name), "latest"), (retry, "earliest")):
                    if subject is not None and group not in subject.groups:
                        made = await completed(partial(self._ensured, subject, group, start))
                        created, offset = created + 1, made.progress.applied_at
                        if created % GROUPS_PER_SLICE == 0:
                            await self._node.committer.synced(offset)
            except IllegalName as error:
                # No consumer can pull with this name.
                logger.info("consumer group %r of subject %r is not created: %s", group, name, error)
        await self._node.committer.synced(offset)
        return created

    def _ensured(self, subject: Subject, group: str, start: str) -> Group:
        return subject.groups.get(group) or set_position(self._data.store, subject, group, start, 0, broadcast=False)[0]
