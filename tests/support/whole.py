"""Tests that take minutes of both cores: part of a whole run that is asked for, not of every one."""

import os

import pytest

in_whole_fault_runs = pytest.mark.skipif(
    os.environ.get("QMQ_FAULTS") != "full", reason="minutes: `make faults` runs it"
)
is_whole_spark_run = os.environ.get("QMQ_SPARK") == "full"
in_whole_spark_runs = pytest.mark.skipif(not is_whole_spark_run, reason="minutes of both cores: `make spark` runs it")
in_whole_story_runs = pytest.mark.skipif(
    os.environ.get("QMQ_STORIES") != "full", reason="minutes of both cores: `make e2e` runs it"
)
in_whole_attack_runs = pytest.mark.skipif(
    os.environ.get("QMQ_ATTACK") != "full", reason="minutes of both cores: `make attack` runs it"
)
