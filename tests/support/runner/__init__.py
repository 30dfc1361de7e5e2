"""The run of all tests: its commands, other Pythons and databases, flaky tests, and the report."""
