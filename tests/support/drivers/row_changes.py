"""A random sequence of changes of a broker group's row, for each store of rows."""

import random
from collections.abc import Callable
from functools import partial
from uuid import UUID

from qmq.protocol.group_rows import InSyncChange
from qmq_node.replication.rules.row import AddMember, ChangeInSync, ChangeRejected, GroupRow, Promotion

Change = ChangeInSync | Promotion | AddMember


def _outcome(change: Callable[[], GroupRow]) -> GroupRow | tuple[str, bool]:
    """The changed row, or why there is none."""
    try:
        return change()
    except ChangeRejected as rejected:
        return str(rejected), rejected.is_stale


def check_random_changes(first: GroupRow, made: Callable[[Change], GroupRow], stored: Callable[[], GroupRow]) -> None:
    """Check that a store holds exactly what the rules return, and rejects exactly what they reject.

    Args:
        first: a row of the members a, b and c, as it is stored.
        made: makes a change, and returns the changed row.
        stored: returns the stored row.
    """
    rng, expected = random.Random(18), first
    for number in range(120):
        row, members = expected, ("a", "b", "c")
        place = rng.choice([row.place, row.place, row.place, (row.epoch, row.version - 1), (row.epoch + 1, 0)])
        member = rng.choice(members)
        change: Change = rng.choice(
            [
                ChangeInSync(row.master, *place[:1], row.promotion_id, place[1], kind, member, f"{number:016x}")
                for kind in InSyncChange
            ]
            + [Promotion(*place, member, f"boot {number}", row.epoch + 1, str(UUID(int=number)))]
            + [AddMember(*place, member, f"{number:016x}")]
        )
        by_rules, by_store = _outcome(partial(change.applied_to, row)), _outcome(partial(made, change))
        assert by_store == by_rules
        if isinstance(by_rules, GroupRow):
            expected = by_rules
        assert stored() == expected
    assert expected.epoch > 5
