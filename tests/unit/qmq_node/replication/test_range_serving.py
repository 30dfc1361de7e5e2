"""Which members may read ranges of another one, and what is refused."""

import asyncio
from dataclasses import replace

import pytest

from qmq.errors import ReadRefused
from qmq.protocol.group_memberships import GroupMembership
from qmq.protocol.replication import LOG_FILE, ReadRangeRequest, ReadRangeResponse
from qmq_node.repair.ranges import RepairableFiles
from qmq_node.repair.serving import READS_MAX, RangeServing
from qmq_node.replication.rate_limit import RateLimit
from qmq_node.replication.rules.roles import ReplicaState
from qmq_node.replication.slave_claim import RangeClaim, SlaveClaim
from tests.support.manual_clock import ManualClock

PROMOTION, OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e", "1f8fad5b-d9cb-469f-a165-70867728950e"
MEMBERSHIP = GroupMembership("g1", 7, PROMOTION, "g1-a", "", 12, 2, ("g1-a", "g1-b", "g1-c"), ("g1-a", "g1-b"))
REQUEST = ReadRangeRequest("g1", "g1-a", 7, PROMOTION, LOG_FILE, 0, 64, 128, 5)
CLAIM = RangeClaim("g1", "g1-a", 7, PROMOTION, "g1-b")


class Log:
    """A log that has every range."""

    def read(self, request: ReadRangeRequest) -> ReadRangeResponse:
        return ReadRangeResponse(request.begin, 0, 1 << 20, b"commit")


def serving(membership: GroupMembership | None = MEMBERSHIP, node: str = "g1-b") -> RangeServing:
    files: dict[str, RepairableFiles] = {LOG_FILE: Log()}  # type: ignore[dict-item]
    state = ReplicaState(7, PROMOTION, False)
    return RangeServing("g1", node, lambda: state, lambda: membership, files.get, RateLimit(ManualClock(), 0))


@pytest.mark.parametrize("node", ["g1-a", "g1-b", "g1-c"])
async def test_a_member_answers_every_other_one_whatever_its_role(node: str) -> None:
    for other in MEMBERSHIP.members:
        if other != node:
            assert not serving(node=node).problem_of(replace(CLAIM, node_id=other, to=node))
            assert (await serving(node=node).read(replace(REQUEST, node_id=other))).data == b"commit"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"broker_group": "g2"}, "UNKNOWN_GROUP: this node belongs to broker group g1, not g2"),
        ({"node_id": "stranger"}, "NOT_MEMBER: node stranger states epoch 7; g1-b has epoch 7 with members g1-a, g1-b, g1-c"),
        ({"node_id": "g1-d"}, "NOT_MEMBER: node g1-d states"),
        ({"epoch": 6}, "OLDER_EPOCH: node g1-a states epoch 6; g1-b has epoch 7"),
        ({"epoch": 8}, "NEWER_EPOCH: node g1-a states epoch 8; g1-b has epoch 7"),
        ({"promotion_id": OTHER}, "OTHER_PROMOTION: "),
        ({"node_id": "g1-b"}, "node g1-b states"),
    ],
)  # fmt: skip
async def test_others_are_refused(changes: dict[str, str], why: str) -> None:
    assert why in serving().problem_of(replace(CLAIM, **changes))
    with pytest.raises(ReadRefused) as refused:
        await serving().read(replace(REQUEST, **changes))
    assert refused.value.code == "copy.forbidden"
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "membership",
    [None, replace(MEMBERSHIP, epoch=6), replace(MEMBERSHIP, promotion_id=OTHER), replace(MEMBERSHIP, epoch=8)],
)
def test_without_the_membership_of_its_epoch_a_node_answers_no_one(membership: GroupMembership | None) -> None:
    assert "does not know yet which members" in serving(membership).problem_of(CLAIM)


def test_a_removed_node_answers_no_one() -> None:
    membership = replace(MEMBERSHIP, members=("g1-a", "g1-c"), in_sync=("g1-a",))
    assert serving(membership).problem_of(CLAIM)


def test_a_proof_names_both_sides_and_is_none_of_a_slave_to_its_master() -> None:
    assert serving(node="g1-c").problem_of(CLAIM) == "NOT_MEMBER: this node is g1-c, not g1-b"
    assert RangeClaim.parse(CLAIM.purpose) == CLAIM
    assert SlaveClaim.parse(CLAIM.purpose) is None
    assert RangeClaim.parse(SlaveClaim("g1", "g1-a", 7, PROMOTION).purpose) is None


@pytest.mark.parametrize(
    ("file", "since"), [("../log", 0), ("schedule/2026112913.data", 4096), ("log/../log", 0), ("/etc/passwd", 0), (LOG_FILE, 1)]
)  # fmt: skip
async def test_a_file_that_this_kind_of_node_does_not_have_is_refused(file: str, since: int) -> None:
    with pytest.raises(ReadRefused, match="this node has no file") as refused:
        await serving().read(replace(REQUEST, file=file, since=since))
    assert refused.value.code == "copy.no_file"


async def test_reads_are_limited() -> None:
    serves, gate = serving(), asyncio.Event()

    async def wait(_: int) -> None:
        await gate.wait()

    serves._rate.wait = wait  # type: ignore[method-assign]
    reads = [asyncio.create_task(serves.read(REQUEST)) for _ in range(READS_MAX)]
    await asyncio.sleep(0)
    further = asyncio.create_task(serves.read(REQUEST))
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(ReadRefused) as refused:
        await further
    assert refused.value.code == "copy.busy"
    await asyncio.gather(*reads)
    assert (await serves.read(REQUEST)).data == b"commit"
