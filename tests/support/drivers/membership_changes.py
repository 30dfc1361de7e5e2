"""A random sequence of changes of a broker group's membership, for each store of memberships."""

import random
from collections.abc import Callable
from functools import partial
from uuid import UUID

from qmq.protocol.group_memberships import InSyncChange
from qmq_node.replication.rules.membership import AddMember, ChangeInSync, ChangeRejected, Membership, Promotion

Change = ChangeInSync | Promotion | AddMember


def _outcome(change: Callable[[], Membership]) -> Membership | tuple[str, bool]:
    """The changed membership, or why there is none."""
    try:
        return change()
    except ChangeRejected as rejected:
        return str(rejected), rejected.is_stale


def check_random_changes(
    first: Membership, made: Callable[[Change], Membership], stored: Callable[[], Membership]
) -> None:
    """Check that a store holds exactly what the rules return, and rejects exactly what they reject.

    Args:
        first: a membership of the members a, b and c, as it is stored.
        made: makes a change, and returns the changed membership.
        stored: returns the stored membership.
    """
    rng, expected = random.Random(18), first
    for number in range(120):
        membership, members = expected, ("a", "b", "c")
        place = rng.choice(
            [
                membership.place,
                membership.place,
                membership.place,
                (membership.epoch, membership.version - 1),
                (membership.epoch + 1, 0),
            ]
        )
        member = rng.choice(members)
        change: Change = rng.choice(
            [
                ChangeInSync(
                    "g1",
                    membership.master,
                    place[0],
                    membership.promotion_id,
                    place[1],
                    kind,
                    member,
                    incarnation=f"{number:016x}",
                )
                for kind in InSyncChange
            ]
            + [Promotion(*place, member, f"boot {number}", membership.epoch + 1, str(UUID(int=number)))]
            + [AddMember(*place, member, f"{number:016x}")]
        )
        by_rules, by_store = _outcome(partial(change.applied_to, membership)), _outcome(partial(made, change))
        assert by_store == by_rules
        if isinstance(by_rules, Membership):
            expected = by_rules
        assert stored() == expected
    assert expected.epoch > 5
