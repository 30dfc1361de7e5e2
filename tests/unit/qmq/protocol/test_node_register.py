"""NODE_REGISTER: what a later version adds is ignored, and a body that ends early is an error that names the field."""

from typing import Any

import pytest

from qmq.errors import ProtocolError
from tests.unit.qmq.protocol.replication_examples import BODIES, REGISTER, REGISTERED

EXAMPLES = pytest.mark.parametrize(("name", "value"), [("register", REGISTER), ("registered", REGISTERED)])


@EXAMPLES
def test_what_a_later_version_adds_is_ignored(name: str, value: Any) -> None:
    assert type(value).decode(BODIES[name] + b"later") == value


@EXAMPLES
def test_a_body_that_ends_early_is_refused(name: str, value: Any) -> None:
    body = BODIES[name]
    for end in range(len(body)):
        with pytest.raises(ProtocolError, match=rf"^{type(value).__name__}"):
            type(value).decode(body[:end])
    assert type(value).decode(body) == value
