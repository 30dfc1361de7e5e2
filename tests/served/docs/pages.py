"""Pages whose examples are run."""

from tests.support.servers.processes import PROJECT

PAGE = (PROJECT / "docs/client.md").read_text()
