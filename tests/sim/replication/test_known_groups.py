"""After a loss of data that an operator accepted: what is sent before consumers return reaches every group that was known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_node.known_groups import KnownGroups
from metaserver.domain import ClientSeen, StoredConsumerGroup
from metaserver.requests import known_groups
from metaserver.requests.known_groups import KnownGroupsPages
from qmq import Consumer
from qmq.errors import QmqError
from qmq.protocol.codes import ClientType
from qmq.protocol.extensions import KNOWN_GROUPS_MAX, KnownGroupsRequest, KnownGroupsResponse
from qmq.protocol.names import retry_subject
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import NEW_FOLDER
from tests.sim.replication.groups import Group, cluster_of, promoted_by_operator
from tests.sim.replication.pair import client_of, send
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.database import SimulatedRepository
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, message
from tests.support.waiting import eventually_async

SUBJECT = "orders"
GROUPS = ("billing", "shipping")
REPORT_SECONDS = 4.0
"""Within this time the end of a node's log is stored."""
STEPS = ("note_loss", "before _requested", "_requested", "_ensured", "_create", "groups_created")
"""Of the creation of groups: those after which, or before which, a node is killed."""


@asynccontextmanager
async def only_member() -> AsyncIterator[Group]:
    """A broker group of one node that has consumer groups."""
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        await used(group, *GROUPS)
        yield group


async def used(group: Group, *names: str) -> None:
    """Consumers of these groups register and pull, and messages are sent to them."""
    for name in names:
        async with Consumer(group.cluster.meta_url, SUBJECT, name) as consumer:
            pulling = asyncio.ensure_future(anext(aiter(consumer)))
            await eventually_async(lambda name=name: name in groups_of(group), 60)
            pulling.cancel()
            await asyncio.wait([pulling])
    async with client_of(group.master) as client:
        await send(client, range(5))
    await eventually_async(lambda: known(group) >= set(names), 60)
    await asyncio.sleep(REPORT_SECONDS)


def known(group: Group) -> set[str]:
    """The consumer groups in the database."""
    return {client.group for client in group.cluster.database.stored.clients if client.group}


def groups_of(group: Group, subject: str = SUBJECT) -> set[str]:
    """The consumer groups at the master."""
    found = group.master.store.subjects.get(subject)
    return set(found.groups) if found is not None else set()


def refusal(group: Group, node: str = "g1-a") -> str:
    """Why a node accepts no messages."""
    return str(group.broker(node).registration.refuse_sends())


async def restarted_with(group: Group, disk: Any = None) -> Host:
    """The only member starts with another disk, and waits for an operator's decision; None: an empty one."""
    host = group.hosts["g1-a"]
    host.kill()
    if disk is None:
        group.empty_disk("g1-a")
    else:
        host.disk = disk
    host.start()
    await eventually_async(lambda: group.runs("g1-a") and "missing" in refusal(group), 60)
    return host


async def only_a_lacking_member_runs(group: Group) -> None:
    """Of a group with two members, only the one runs that lacks the newest messages, and a consumer group."""
    group.set(in_sync_min=1, in_sync_version=group.membership.version + 1)
    await used(group, *GROUPS)
    group.hosts["g1-b"].kill()
    await eventually_async(lambda: group.membership.in_sync == ("g1-a",), 60)
    await used(group, "late")
    group.hosts["g1-a"].kill()
    group.hosts["g1-b"].start()


async def accepted(group: Group, count: int, numbers: range = range(100, 100_000)) -> list[str]:
    """Send to the master until so many messages were accepted, whatever happens to it meanwhile; their IDs."""
    found: list[str] = []
    for number in numbers:
        try:
            async with client_of(group.master) as client:
                if not await client.send(message(number)):
                    found.append(f"m{number}")
        except (AssertionError, QmqError, OSError):
            pass
        if len(found) == count:
            break
        await asyncio.sleep(0.001)
    return found


async def pulled(client: Client, name: str) -> list[str]:
    """All that is pending for a group."""
    found: list[str] = []
    while (page := await client.pull(SUBJECT, name, limit=1000, last=len(found) - 1))[1]:
        found += page[1]
    return found


async def assert_all_received(group: Group, sent: list[str], *names: str) -> None:
    async with client_of(group.master) as client:
        for name in names or GROUPS:
            missing = set(sent) - set(await pulled(client, name))
            assert not missing, f"group {name} lacks {len(missing)} of {len(sent)} messages"


async def test_an_empty_broker_has_its_groups_before_it_accepts_messages() -> None:
    async with only_member() as group:
        await restarted_with(group)
        await asyncio.sleep(REPORT_SECONDS)
        assert groups_of(group) == set(), "their records would count as what was lost"
        group.accept_log_loss("g1-a")
        sent = await accepted(group, 20)
        await assert_all_received(group, sent)
        state = group.broker("g1-a").folder.replica.state
        assert not state.lacks_groups
        assert state.loss_id == group.membership.loss_id != ""


async def test_a_broker_with_an_older_folder_gets_the_groups_that_came_later() -> None:
    async with only_member() as group:
        host = group.hosts["g1-a"]
        copy = host.disk.after_kill()
        await used(group, "late")
        await restarted_with(group, copy)
        assert groups_of(group) == set(GROUPS)
        group.accept_log_loss("g1-a")
        sent = await accepted(group, 20)
        await assert_all_received(group, sent, *GROUPS, "late")


async def test_an_older_folder_whose_log_becomes_longer_than_it_was_lacks_the_same() -> None:
    async with only_member() as group:
        host = group.hosts["g1-a"]
        copy = host.disk.after_kill()
        await used(group, "late")
        known_end = group.broker("g1-a").log.synced_end
        await restarted_with(group, copy)
        async with client_of(group.broker("g1-a")) as client:
            for number in range(50):
                await client.pull(SUBJECT, f"new{number}", limit=1)
        assert group.broker("g1-a").log.synced_end > known_end
        await asyncio.sleep(REPORT_SECONDS)
        assert "missing" in refusal(group)
        host.kill()
        host.start()
        await host.has_started.wait()
        await asyncio.sleep(REPORT_SECONDS)
        assert "missing" in refusal(group), "also after a restart"
        group.accept_log_loss("g1-a")
        sent = await accepted(group, 20)
        await assert_all_received(group, sent, *GROUPS, "late")
        stored = group.cluster.database.stored
        await eventually_async(lambda: stored.nodes["g1-a"].log_end == group.master.log.synced_end, 60)
        assert group.master.folder.replica.state.older_end == -1


async def test_the_retry_subject_of_an_older_folder_is_read_from_its_beginning() -> None:
    """It may have messages that the group never pulled; one that is not there begins with the first retry."""
    async with only_member() as group:
        retry = retry_subject(SUBJECT, "late")
        async with client_of(group.master) as client:
            await client.send(message(1, retry))
        host = group.hosts["g1-a"]
        copy = host.disk.after_kill()
        await used(group, "late")
        await restarted_with(group, copy)
        group.accept_log_loss("g1-a")
        await accepted(group, 1)
        subject = group.master.store.subjects[retry]
        assert subject.groups["late"].progress.next_sequence == subject.begin < subject.visible_end
        assert retry_subject(SUBJECT, "billing") not in group.master.store.subjects


async def test_a_member_that_is_promoted_with_accepted_loss_has_the_groups_of_the_lost_tail() -> None:
    async with cluster_of(2) as group:
        await only_a_lacking_member_runs(group)
        await promoted_by_operator(group, "g1-b")
        sent = await accepted(group, 20)
        assert group.membership.master == "g1-b"
        await assert_all_received(group, sent, *GROUPS, "late")


async def test_the_successor_of_a_promoted_member_that_failed_before_it_created_the_groups_does_it() -> None:
    async with cluster_of(3) as group:
        await used(group, *GROUPS)
        for node in ("g1-b", "g1-c"):
            group.hosts[node].kill()
        group.set(in_sync_min=1, in_sync_version=group.membership.version + 1)
        await eventually_async(lambda: group.membership.in_sync == ("g1-a",), 60)
        await used(group, "late")
        group.hosts["g1-a"].kill()
        answers = list[str]()

        async def away(self: KnownGroupsPages, request: KnownGroupsRequest) -> KnownGroupsResponse:
            answers.append(request.node_id)
            return KnownGroupsResponse(request.broker_group, problem="not now")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KnownGroupsPages, "_page", away)
            group.hosts["g1-b"].start()
            await promoted_by_operator(group, "g1-b")
            await group.serves("g1-b")
            group.hosts["g1-c"].start()
            await group.in_sync("g1-b", "g1-c")
            assert "not now" in refusal(group, "g1-b")
            group.hosts["g1-b"].kill()
            await group.serves("g1-c")
            assert "not now" in refusal(group, "g1-c"), "a promotion without a loss, in a group that had one"
        assert set(answers) == {"g1-b", "g1-c"}
        sent = await accepted(group, 20)
        await assert_all_received(group, sent, *GROUPS, "late")


class Killer:
    """Kills a node once, at a step of the creation of its groups, and starts it again."""

    def __init__(self, patch: pytest.MonkeyPatch, group: Group, node: str, step: str) -> None:
        self._group = group
        self._host = group.hosts[node]
        self.kills = 0
        owner: Any = ReplicaStateFile if step in ("note_loss", "groups_created") else KnownGroups
        name, is_before = step.removeprefix("before "), step.startswith("before ")
        original = getattr(owner, name)

        async def asynchronous(*arguments: Any) -> Any:
            if is_before:
                await self._kill()
            found = await original(*arguments)
            await self._kill()
            return found

        def synchronous(*arguments: Any) -> Any:
            found = original(*arguments)
            if not self.kills:
                self._kill_soon()
            return found

        patch.setattr(owner, name, asynchronous if asyncio.iscoroutinefunction(original) else synchronous)

    async def _kill(self) -> None:
        if not self.kills:
            self._kill_soon()
            await asyncio.get_running_loop().create_future()

    def _kill_soon(self) -> None:
        self.kills += 1
        running_loop().call_soon_threadsafe(self._restart, context=self._group.cluster.network.context)

    def _restart(self) -> None:
        self._host.kill()
        self._host.start()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("folder", ["empty", "older"])
async def test_a_node_that_is_killed_meanwhile_does_not_skip_it(
    monkeypatch: pytest.MonkeyPatch, folder: str, step: str
) -> None:
    async with only_member() as group:
        copy = group.hosts["g1-a"].disk.after_kill()
        await used(group, "late")
        killer = Killer(monkeypatch, group, "g1-a", step)
        await restarted_with(group, None if folder == "empty" else copy)
        await asyncio.sleep(REPORT_SECONDS)
        group.accept_log_loss("g1-a")
        sent = await accepted(group, 20)
        assert killer.kills == 1
        await assert_all_received(group, sent, *GROUPS, "late")


@pytest.mark.parametrize("step", STEPS)
async def test_a_promoted_member_that_is_killed_meanwhile_does_not_skip_it(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with cluster_of(2) as group:
        await only_a_lacking_member_runs(group)
        killer = Killer(monkeypatch, group, "g1-b", step)
        await promoted_by_operator(group, "g1-b")
        sent = await accepted(group, 20)
        assert killer.kills == 1
        await assert_all_received(group, sent, *GROUPS, "late")


async def test_a_node_that_starts_between_the_loss_and_its_acceptance_accepts_nothing_before_a_metaserver_answers() -> (
    None
):
    async with only_member() as group:
        copy = group.hosts["g1-a"].disk.after_kill()
        await used(group, "late")
        host = await restarted_with(group, copy)
        await eventually_async(lambda: group.broker("g1-a").folder.replica.state.lacks_groups, 60)
        group.cluster.meta.kill()
        host.kill()
        host.start()
        await host.has_started.wait()
        assert "no operator has accepted" in refusal(group)
        async with client_of(group.broker("g1-a")) as client:
            assert await client.send(message(99)) != {}
            assert len(await pulled(client, "billing")) == 5, "what is stored is served"
        group.accept_log_loss("g1-a")
        group.cluster.meta.start()
        sent = await accepted(group, 20)
        await assert_all_received(group, sent, *GROUPS, "late")


def absent(repository: SimulatedRepository, after: int, count: int) -> list[StoredConsumerGroup]:
    raise ConnectionError("the database is away")


async def test_without_the_database_it_accepts_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async with only_member() as group:
        await restarted_with(group)
        database, meta = group.cluster.database, group.cluster.meta.server
        assert meta is not None
        host = group.hosts["g1-a"]
        with monkeypatch.context() as patch:
            # Of what follows on the accepted loss, not even the first request is answered.
            patch.setattr(SimulatedRepository, "consumer_groups", absent)
            group.accept_log_loss("g1-a")
            await eventually_async(lambda: meta.directory.nodes["g1-a"].log_end_version == 1, 60)
            database.is_away = True
        await eventually_async(lambda: "the database" in refusal(group), 60)
        assert refusal(group).startswith(
            "read only: consumer groups that were known before data was lost are not created yet: "
        )
        await asyncio.sleep(20.0)
        assert "the database, which has the consumer groups, does not respond" in refusal(group)
        host.kill()
        host.start()
        await host.has_started.wait()
        await asyncio.sleep(5.0)
        assert refusal(group), "also after a restart"
        database.is_away = False
        sent = await accepted(group, 20)
        await assert_all_received(group, sent)


async def test_a_metaserver_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with only_member() as group:
        await restarted_with(group)
        with monkeypatch.context() as patch:
            patch.setattr(known_groups, "PAGES_MAX", 0)
            group.accept_log_loss("g1-a")
            await eventually_async(lambda: "busy: it reads 0 pages, the maximum" in refusal(group), 60)
        sent = await accepted(group, 20)
        await assert_all_received(group, sent)


async def test_a_group_that_only_the_database_knows_gets_everything() -> None:
    async with only_member() as group:
        for number in range(KNOWN_GROUPS_MAX + 10):
            client = ClientSeen(SUBJECT if number % 2 else "payments", ClientType.CONSUMER, f"absent{number}", "c", "")
            group.cluster.database.stored.clients[client] = None
        await restarted_with(group)
        group.accept_log_loss("g1-a")
        sent = await accepted(group, 5)
        last = KNOWN_GROUPS_MAX + 9
        await assert_all_received(group, sent, *GROUPS, "absent1", f"absent{last}")
        assert "payments" not in group.master.store.subjects, "no broker group serves it"
        assert len(groups_of(group)) == KNOWN_GROUPS_MAX // 2 + 5 + len(GROUPS)


async def test_names_that_no_consumer_can_pull_with_are_left_out() -> None:
    async with only_member() as group:
        group.cluster.database.stored.clients[ClientSeen(SUBJECT, ClientType.CONSUMER, "a/b", "c", "")] = None
        await restarted_with(group)
        group.accept_log_loss("g1-a")
        await assert_all_received(group, await accepted(group, 5))
        assert groups_of(group) == set(GROUPS)


async def test_a_new_broker_group_accepts_messages_at_once() -> None:
    async with Cluster(running_loop(), brokers=2, delays=0) as cluster:
        for number in (1, 2):
            group = Group(cluster, f"g{number}")
            broker = group.broker(f"g{number}-a")
            assert not broker.registration.refuse_sends()
            state = broker.folder.replica.state
            assert state.loss_id == state.groups_loss_id == NEW_FOLDER
            assert group.hosts[f"g{number}-a"].starts == 1
        states = [record for record in cluster.log.lines if "is read_only" in record]
        assert states == [], "it does not begin read only"


async def test_a_new_group_whose_metaserver_starts_later_accepts_messages() -> None:
    cluster = Cluster(running_loop(), brokers=1, delays=0)
    group = Group(cluster)
    host = group.hosts["g1-a"]
    host.start()
    await asyncio.sleep(30.0)
    cluster.meta.start()
    try:
        await eventually_async(lambda: "g1" in cluster.database.stored.groups, 60)
        await group.serves("g1-a")
        await eventually_async(lambda: not refusal(group), 60)
    finally:
        for one in cluster.hosts.values():
            one.kill()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            KnownGroupsResponse("g2", groups=((SUBJECT, "stranger"),)),
            "it returned the consumer groups of broker group g2",
        ),
        (KnownGroupsResponse("g1", 7, groups=((SUBJECT, "stranger"),)), "is followed by the one after 7"),
    ],
    ids=["of another broker group", "without an end"],
)
async def test_answers_that_do_not_fit_create_nothing(
    monkeypatch: pytest.MonkeyPatch, answer: KnownGroupsResponse, problem: str
) -> None:
    async with only_member() as group:
        await restarted_with(group)

        async def bad(*_: Any) -> KnownGroupsResponse:
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(KnownGroupsPages, "_page", bad)
            group.accept_log_loss("g1-a")
            await eventually_async(lambda: problem in refusal(group), 60)
            assert groups_of(group) == set()
        sent = await accepted(group, 5)
        await assert_all_received(group, sent)
        assert groups_of(group) == set(GROUPS)
