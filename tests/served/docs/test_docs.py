"""The docs are true: every setting is listed."""

from broker_node.options import BrokerOptions
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from qmq.daemon.options import options_markdown
from tests.support.processes import PROJECT


def test_every_setting_is_documented() -> None:
    text = (PROJECT / "docs/reference/settings.md").read_text()
    assert text == settings_page(), (
        "docs/reference/settings.md is stale: python -m tests.served.docs.test_docs writes it"
    )


def settings_page() -> str:
    """docs/reference/settings.md, from the options themselves."""
    return (
        "# Settings\n\nMade from the code (`python -m tests.served.docs.test_docs`). Each can be given as a flag, in the"
        " environment, or in a TOML file named with `--config`; the first of these that says something counts.\n\n"
        f"## Broker node: `python -m broker_node`\n\n{options_markdown(BrokerOptions, 'broker')}\n"
        f"## Delay node: `python -m delay_node`\n\n{options_markdown(DelayOptions, 'delay')}\n"
        f"## Metaserver: `python -m metaserver`\n\n{options_markdown(MetaOptions, 'meta')}"
    )


if __name__ == "__main__":
    (PROJECT / "docs/reference/settings.md").write_text(settings_page())
