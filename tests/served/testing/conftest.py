"""Runs pytest on files of an imagined user, in a process of its own."""

from tests.served.testing.runs import run_tests as run_tests
