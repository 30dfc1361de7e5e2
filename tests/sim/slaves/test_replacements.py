"""A master whose disk hangs, or that is cut off from its slaves, or from all servers, for a minute: within 12 s the group is led
and accepts sends, and nothing is lost."""

import math
import os

import pytest

from metaserver.replication import promotions
from qmq_node.commits import write_watch
from tests.sim.slaves.replacements import FAULTS, run_replacement
from tests.support.promises import PromiseBroken

SEEDS = 200 if os.environ.get("QMQ_SIM") == "full" else 8


@pytest.mark.parametrize("fault", FAULTS)
def test_a_group_is_led_and_accepts_sends(fault: str) -> None:
    reports = [run_replacement(seed, fault) for seed in range(1, SEEDS + 1)]
    if broken := [report for report in reports if report.broken]:
        raise PromiseBroken("\n\n".join(map(str, broken[:3])))


@pytest.mark.parametrize(
    ("fault", "owner", "name", "value"),
    [
        ("hanging_disk", promotions, "_why_it_does_not_lead", lambda *_: ""),
        ("cut_from_slaves", promotions, "_why_it_is_cut_off", lambda *_: ""),
        ("cut_off_for_long", promotions, "is_due", lambda *_: None),
        ("hanging_disk", write_watch, "STUCK_SECONDS", math.inf),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_group_that_is_not_led_or_does_not_refuse_is_noticed(
    monkeypatch: pytest.MonkeyPatch, fault: str, owner: object, name: str, value: object
) -> None:
    monkeypatch.setattr(owner, name, value)
    reports = (run_replacement(seed, fault) for seed in range(1, SEEDS + 1))
    assert any(broken.check == "replaced" for report in reports for broken in report.broken)
