"""No acknowledged message is lost in any state that the rules of replication allow, within the bounds of each walk."""

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.sim.replication.breakages import BREAKAGES, SEEDS_MAX, STEPS, RuleBreakage
from tests.sim.replication.group import Bounds, Rules, begin
from tests.sim.replication.walk import take, walk_all, walk_one
from tests.support.source_change import SourceChange

WALKS = {
    "one member": Bounds(members=1),
    "two members": Bounds(crashes=1),
    "one copy is enough": Bounds(in_sync_min=1, crashes=1),
    "slaves get bytes before the master's sync": Bounds(syncs_later=True, in_sync_min=1, epochs=2),
    "masters resign": Bounds(resigns=True, epochs=2, crashes=1),
    "the database is restored": Bounds(restores=1, values=1, epochs=2, crashes=1),
    "stores, checkpoints, interrupted truncations": Bounds(applies=True, epochs=2, crashes=1),
    "a second member is added": Bounds(grows=True, in_sync_min=1, epochs=2, crashes=1),
    "an operator promotes any member": Bounds(operator_promotions=1, in_sync_min=1, epochs=2, crashes=1),
    "commits of slaves share syncs": Bounds(shares_syncs=True, syncs_later=True, epochs=2, crashes=1),
    "a master waits for a slave that lags": Bounds(
        joins=True, syncs_later=True, in_sync_min=1, values=1, epochs=2, crashes=1
    ),
    "a disk is replaced": Bounds(new_disks=1, resigns=True, values=1, epochs=2, crashes=0),
    "a member is removed": Bounds(removals=1, in_sync_min=1, values=1, epochs=2, crashes=1),
    "a group is reduced to one member": Bounds(removals=1, in_sync_min=1, syncs_later=True, epochs=1, crashes=1),
    "the only member is replaced": Bounds(
        members=1, replacements=1, spares=1, resigns=True, values=1, epochs=2, crashes=1
    ),
}
"""What `make test` walks, some 20 s."""
LONG_WALKS = {
    "two members": Bounds(),
    "one copy is enough": Bounds(in_sync_min=1),
    "slaves get bytes before the master's sync": Bounds(syncs_later=True),
    "masters resign": Bounds(resigns=True, in_sync_min=1),
    "the database is restored": Bounds(restores=1, in_sync_min=1, epochs=2, crashes=1),
    "a second member is added": Bounds(grows=True, in_sync_min=1),
    "an operator promotes any member": Bounds(
        operator_promotions=1, in_sync_min=1, restores=1, values=1, epochs=3, crashes=1
    ),
    "commits of slaves share syncs": Bounds(shares_syncs=True, syncs_later=True, values=3, epochs=2, crashes=1),
    "a master waits for a slave that lags": Bounds(joins=True, syncs_later=True, in_sync_min=1, epochs=2, crashes=1),
    "a disk is replaced": Bounds(new_disks=1, resigns=True, in_sync_min=1, values=1, epochs=3, crashes=1),
    "a member is removed": Bounds(removals=1, in_sync_min=1, epochs=2, crashes=1),
    "a group is reduced to one member": Bounds(removals=1, in_sync_min=1, syncs_later=True, epochs=2, crashes=1),
    "the only member is replaced": Bounds(members=1, replacements=1, spares=1, resigns=True, epochs=3, crashes=1),
    "one of two members is replaced": Bounds(replacements=1, spares=1, in_sync_min=1, values=1, epochs=1, crashes=0),
    "three members": Bounds(members=3, values=1, epochs=2, crashes=1),
    "three members, two values": Bounds(members=3, epochs=2, crashes=0),
}
"""What `make test-all` walks."""
EVERYTHING = Bounds(
    members=3, spares=1, values=4, epochs=5, crashes=4, restores=1, new_disks=1, removals=2, replacements=1,
    resigns=True, syncs_later=True, shares_syncs=True, joins=True, applies=True,
)  # fmt: skip
IS_FULL = os.environ.get("QMQ_SIM") == "full"
SEEDS = 20_000 if IS_FULL else 600


@pytest.mark.parametrize("bounds", [pytest.param(bounds, id=name) for name, bounds in WALKS.items()])
def test_nothing_acknowledged_is_lost_in_any_state(bounds: Bounds) -> None:
    found = walk_all(bounds)
    assert not found.broken, found


@pytest.mark.slow
@pytest.mark.skipif(not IS_FULL, reason="QMQ_SIM=full runs it: make test-all")
@pytest.mark.parametrize("bounds", [pytest.param(bounds, id=name) for name, bounds in LONG_WALKS.items()])
def test_nothing_acknowledged_is_lost_in_any_state_of_a_long_walk(bounds: Bounds) -> None:
    found = walk_all(bounds)
    assert not found.broken, found


@pytest.mark.parametrize("members", [2, 3])
def test_nothing_acknowledged_is_lost_on_random_walks(members: int) -> None:
    for seed in range(SEEDS):
        bounds = Bounds(**{**vars(EVERYTHING), "members": members, "in_sync_min": 1 + seed % 2, "grows": seed % 4 > 1})
        found = walk_one(seed, bounds)
        assert not found.broken, f"seed {seed}, {bounds}: {found}"


@pytest.mark.parametrize("members", [2, 3])
def test_only_an_operator_gives_up_what_was_acknowledged(members: int) -> None:
    """After that, nothing that the promoted member had, and nothing acknowledged later, is lost."""
    given_up = 0
    for seed in range(SEEDS // 2):
        bounds = Bounds(
            **{
                **vars(EVERYTHING),
                "members": members,
                "in_sync_min": 1,
                "applies": False,
                "operator_promotions": 1,
                "new_disks": 0,
            }
        )
        found = walk_one(seed, bounds)
        assert not found.broken, f"seed {seed}, {bounds}: {found}"
        given_up += found.given_up
    assert given_up > 0


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_walk_finds_each_breakage(breakage: RuleBreakage) -> None:
    for bounds in breakage.bounds:
        seed, found = breakage.find(bounds)
        assert found.broken, f"{SEEDS_MAX} walks of {STEPS} steps found nothing, {bounds}"
        assert not walk_one(seed, bounds, STEPS).broken, "the walk finds it without the breakage, too"


def test_a_walk_reports_the_fewest_steps_to_a_loss() -> None:
    change = SourceChange(
        "truncation by length",
        "qmq_node.replication.rules.following:answer_follow",
        "common = theirs.chain.common_end(theirs.end, own.chain, own.end)",
        "common = min(theirs.end, own.end)",
    )
    with change.applied():
        found = walk_all(Bounds())
    assert len(found.trace) <= 11
    assert str(found).startswith(f"{found.broken}\n  1 {found.trace[0]}\n")


def test_a_walk_that_has_lost_its_bounds_ends() -> None:
    with pytest.raises(RuntimeError, match="more than 100 states"):
        walk_all(Bounds(), states_max=100)


class AnyOrder(RuleBasedStateMachine):
    """Steps in any order that hypothesis thinks of; it shows the shortest one that breaks a promise."""

    @initialize(members=st.sampled_from((2, 3)), in_sync_min=st.sampled_from((1, 2)), grows=st.booleans())
    def begin(self, members: int, in_sync_min: int, grows: bool) -> None:
        bounds = Bounds(**{**vars(EVERYTHING), "members": members, "in_sync_min": in_sync_min, "grows": grows})
        self.rules, self.group = Rules(bounds), begin(bounds)

    @precondition(lambda self: hasattr(self, "group"))
    @rule(choice=st.integers(0, 63))
    def step(self, choice: int) -> None:
        steps = list(self.rules.steps(self.group))
        if steps:
            _, thunk = steps[choice % len(steps)]
            self.group = take(self.rules, self.group, thunk) or self.group


AnyOrder.TestCase.settings = settings(max_examples=400 if IS_FULL else 40, stateful_step_count=60, deadline=None)
TestAnyOrder = AnyOrder.TestCase
