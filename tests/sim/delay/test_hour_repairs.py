"""Files of hours that a member repairs from another one."""

import random
from functools import partial

import pytest

from delay_node.hour_checks import files_of
from tests.support.drivers.delay_states import differences, state_of
from tests.support.drivers.hour_repairs import RepairingMember, two_members


def test_x() -> None:
    a, b = two_members()
    assert not differences(state_of(a.store), state_of(b.store))
    for h in a.store.hours.values():
        print([ (f.name, f.end, f.file.written_end) for f in files_of(h)])
    assert not a.damaged() and not b.damaged()
    rng = random.Random(1)
    b.checkpoint()
    places = []
    for h in b.store.hours.values():
        for f in files_of(h):
            for _ in range(10):
                at = rng.randrange(f.file.written_end)
                b.disk.names[f.file.path()].content[at] ^= 1 << rng.randrange(8)
    print(len(b.damaged()))
    print(b.repair_all(a.answer))
    assert not differences(state_of(a.store), state_of(b.store))
