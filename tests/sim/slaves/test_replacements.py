"""A master whose disk hangs, or that is cut off from its slaves, for a minute is replaced within 12 s, and nothing is lost."""

import os

import pytest

from metaserver import promotions
from tests.sim.slaves.replacements import FAULTS, run_replacement
from tests.support.promises import PromiseBroken

SEEDS = 200 if os.environ.get("QMQ_SIM") == "full" else 10


@pytest.mark.parametrize("fault", FAULTS)
def test_a_master_that_can_not_lead_is_replaced(fault: str) -> None:
    reports = [run_replacement(seed, fault) for seed in range(1, SEEDS + 1)]
    if broken := [report for report in reports if report.broken]:
        raise PromiseBroken("\n\n".join(map(str, broken[:3])))


@pytest.mark.parametrize(
    ("fault", "reason"), [("hanging_disk", "_why_it_does_not_lead"), ("cut_from_slaves", "_why_it_is_cut_off")]
)
def test_a_master_that_is_not_replaced_is_noticed(monkeypatch: pytest.MonkeyPatch, fault: str, reason: str) -> None:
    monkeypatch.setattr(promotions, reason, lambda *_: "")
    report = run_replacement(1, fault)
    assert {broken.check for broken in report.broken} & {"replaced"}, report
