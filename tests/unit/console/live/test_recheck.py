"""What it costs to check again whether open websockets may stay open: each credential once, and the owners once (S11)."""

from collections.abc import Iterable

import pytest

from console.accounts.roles import Principal, Right, Role
from console.live import access
from console.live.consumers import LiveApp
from console.live.sockets import Close, Request, Socket
from console.snapshot.feeds import Feed
from metaserver import queries
from tests.support.manual_clock import ManualClock

PEOPLE = 20
TAILS = 100


async def test_each_credential_is_looked_up_once_and_all_owners_together(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    owners_asked: list[set[str]] = []

    def find(credential: access.Credential) -> access.Visitor | None:
        found.append(credential.token)
        if credential.token == "t0":
            return None
        return access.Visitor(credential.token, Principal(credential.token, Role.OPERATOR, frozenset({"shop"})))

    def owners_of(subjects: Iterable[str]) -> dict[str, str | None]:
        wanted = set(subjects)
        owners_asked.append(wanted)
        return {name: "other" if name == "s1" else "shop" for name in wanted if name != "s2"}

    monkeypatch.setattr(access, "find", find)
    monkeypatch.setattr(queries, "owners_of", owners_of)
    app = LiveApp(ManualClock())
    sockets = {}
    for person in range(PEOPLE):
        credential = access.Credential(token=f"t{person}")
        for number in range(TAILS):
            request = Request(Right.READ_MESSAGES, tail=f"s{number}", role=Role.ADMIN if number == 3 else Role.OPERATOR)
            socket = sockets[person, number] = Socket(request, credential, f"u{person}")
            app._sockets.add(socket)
        app._sockets.add(Socket(Request(Right.READ, Feed("nodes")), credential, f"u{person}"))
    await app._check_all()
    assert sorted(found) == sorted(f"t{person}" for person in range(PEOPLE))
    assert owners_asked == [{f"s{number}" for number in range(TAILS)}]
    closed = {key: socket._closing.result()[0] for key, socket in sockets.items() if socket._closing.done()}
    wanted = {(0, number): Close.NOT_SIGNED_IN for number in range(TAILS)}
    wanted |= {(person, 1): Close.NOT_ALLOWED for person in range(1, PEOPLE)}
    wanted |= {(person, 2): Close.NOT_FOUND for person in range(1, PEOPLE)}
    # What a tail masks is that of the role with which it began.
    wanted |= {(person, 3): Close.TRY_LATER for person in range(1, PEOPLE)}
    assert closed == wanted
    app._sockets.clear()
