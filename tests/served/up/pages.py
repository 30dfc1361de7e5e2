"""Pages whose commands are run."""

from tests.support.servers.processes import PROJECT

FOLDERS = ("docs/tutorials", "docs/how-to")


PAGES = ("README.md", "CONTRIBUTING.md", "docs/alerts.md", "docs/reference/rest-api.md", *sorted(
    str(path.relative_to(PROJECT)) for folder in FOLDERS for path in (PROJECT / folder).glob("*.md")
))  # fmt: skip
