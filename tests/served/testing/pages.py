"""The page on tests of applications."""

from tests.support.servers.processes import PROJECT

PAGE = (PROJECT / "docs/how-to/test-a-consumer.md").read_text()
