"""Numbers of docs/reference/limits.md, and default numbers in other pages, are those of the code."""

import inspect
import re

import pytest

from broker_node.options import BrokerOptions
from console.jobs import analytics
from console.live.rows import ROWS_MAX
from delay_node.options import DelayOptions
from metaserver.memory import fitness, live_groups
from metaserver.models import BrokerGroup
from metaserver.options import MetaOptions
from qmq import Consumer, Timeouts
from qmq.client.delay_groups import REPEAT_SECONDS
from qmq.client.message import CAUSE_CHARS_MAX
from qmq.protocol.group_memberships import MEMBERS_MAX
from qmq.protocol.limited_kinds import NAME_CHARS_MAX
from qmq.protocol.names import TAGS_MAX, VALUE_BYTES_MAX
from qmq_node.commits.write_watch import STUCK_SECONDS
from qmq_node.replication.master import in_sync_set, master_state
from spark_analytics.lake.delta import GONE_HOURS, LOG_DAYS, ORPHAN_HOURS
from spark_analytics.lake.lake import COMPACTIONS_MAX
from spark_analytics.source.offset_files import RANGES_WITHOUT_FOLDER_MAX
from spark_analytics.source.offsets import RANGES_MAX
from spark_analytics.source.options import ROWS_PER_CORE
from tools.prose import PROJECT

BROKER, DELAY, META = BrokerOptions(), DelayOptions(), MetaOptions(database_url="")
PAGE = (PROJECT / "docs/reference/limits.md").read_text()
ROWS = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE, re.M))
ATTEMPTS_MAX = inspect.signature(Consumer).parameters["attempts_max"].default
WORDS = ("no", "one", "two", "three")


def _doubling(first: float, last: float) -> str:
    shown = f"{last / 60:g} min" if last >= 60 else f"{last:g} s"
    return f"{first:g} s, doubling up to {shown}"


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("message", f"{BROKER.message_bytes_max >> 20} MiB"),
        ("value of a property", f"{VALUE_BYTES_MAX:,} bytes"),
        ("tags", f"{TAGS_MAX}"),
        ("message ID, names", f"{NAME_CHARS_MAX} characters"),
        ("cause of a retry", f"{CAUSE_CHARS_MAX} characters"),
        ("due time", f"{DELAY.delay_max_days:g} days"),
        ("delay before a retry", f"{BROKER.retry_delay_seconds:g} s"),
        ("attempts before", f"{ATTEMPTS_MAX}"),
        ("lease of a consumer", f"{BROKER.consumer_lease_seconds:g} s"),
        ("retention", f"{BROKER.retention_hours:g} h"),
        ("unacknowledged messages", f"{BROKER.consumer_in_flight_max:,}"),
        ("time in which a send", f"{Timeouts().delivery:g} s"),
        ("sends that wait for the next segment", f"{STUCK_SECONDS:g} s"),
        ("repeated lookups and changes", f"{REPEAT_SECONDS:g} s"),
        ("lease of a node", f"{live_groups.LEASE_SECONDS:g} s"),
        ("heartbeats of a master", f"{live_groups.EXPIRY_SECONDS:g} s"),
        ("the same, until", f"{live_groups.offline_seconds(MEMBERS_MAX):g} s"),
        ("subjects of a broker", f"{BROKER.subjects_max:,}"),
        ("consumer groups of a subject", f"{BROKER.groups_per_subject_max:,}"),
        ("consumers of a group", f"{BROKER.consumers_per_group_max:,}"),
        ("connections of a node", f"{BROKER.connections_max:,}; {META.connections_max:,}"),
        ("rows that a live list shows", f"{ROWS_MAX}"),
        ("rows that a batch reads", f"{ROWS_PER_CORE:,} for each core"),
        ("ranges of a stream", f"{RANGES_MAX:,}; {RANGES_WITHOUT_FOLDER_MAX:,}"),
        ("hours of a table", f"{COMPACTIONS_MAX}"),
        ("files of the lake", f"{GONE_HOURS} h, {ORPHAN_HOURS} h, {LOG_DAYS} days"),
        (
            "time of a scheduled run",
            f"{analytics.LIMIT_SECONDS / 60:g} min; {analytics.MEMORY_FREE_BYTES_MIN >> 30} GiB",
        ),
        ("members of a group", f"{MEMBERS_MAX}"),
        ("a write that the disk", f"{STUCK_SECONDS:g} s; {live_groups.LEASE_SECONDS:g} s"),
        ("stored messages that wait", f"{master_state.STALLED_SECONDS:g} s; {in_sync_set.PROGRESS_SECONDS:g} s"),
        ("time outside of the set", _doubling(in_sync_set.SLOW_SECONDS, in_sync_set.SLOW_SECONDS_MAX)),
        ("pause before a member", _doubling(fitness.PAUSE_SECONDS, fitness.PAUSE_SECONDS_MAX)),
        ("time in which others", _doubling(fitness.AVOIDED_SECONDS, fitness.AVOIDED_SECONDS_MAX)),
        ("pause before the next", _doubling(fitness.CUT_OFF_SECONDS, fitness.CUT_OFF_SECONDS_MAX)),
    ],
)
def test_the_page_of_limits_has_the_limit_of_the_code(row: str, value: str) -> None:
    shown = ROWS[row] if row in ROWS else next(text for name, text in ROWS.items() if name.startswith(row))
    assert shown.startswith(value)
    assert not shown.removeprefix(value)[:1].isdigit()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("README.md", f"one that fails {ATTEMPTS_MAX} times"),
        ("README.md", f"Messages are kept for {BROKER.retention_hours:g} hours by default"),
        ("README.md", f"in-sync members of a broker or delay group (one to {WORDS[MEMBERS_MAX]})"),
        ("docs/client.md", f"After {ATTEMPTS_MAX} attempts"),
        ("docs/client.md", f"again {BROKER.retry_delay_seconds:g} seconds later"),
        ("docs/client.md", f"until retention deletes it, {BROKER.retention_hours:g} hours by default"),
        ("docs/client.md", f"to another one after {BROKER.consumer_lease_seconds:g} seconds"),
        ("docs/explanation/concepts.md", f"silent for its lease ({BROKER.consumer_lease_seconds:g} seconds)"),
        ("docs/explanation/concepts.md", f"last attempt ({ATTEMPTS_MAX} by default)"),
        ("docs/explanation/concepts.md", f"broker groups ({WORDS[META.subject_groups_min]} by default)"),
        ("docs/explanation/guarantees.md", f"({BROKER.checkpoint_bytes >> 20} MiB at most)"),
        ("docs/how-to/consume.md", f"after the lease of {BROKER.consumer_lease_seconds:g} seconds"),
        ("docs/how-to/retention.md", f"| `retention_hours` | broker nodes | {BROKER.retention_hours:g} |"),
        ("docs/how-to/retention.md", f"{BROKER.disk_reserve_bytes >> 20} MiB (reserve)"),
        ("docs/how-to/send.md", f"({Timeouts().delivery:g} seconds)"),
        ("docs/how-to/deploy-one-machine.md", f"with the default of {META.copies}, an alert reports"),
        ("docs/how-to/deploy-three-machines.md", f"| {META.http_port} | metaserver, HTTP |"),
        ("docs/how-to/deploy-three-machines.md", f"| {META.tcp_port} | metaserver, TCP |"),
        ("docs/how-to/deploy-three-machines.md", f"| {BROKER.port}, "),
        ("docs/how-to/deploy-three-machines.md", f"| {DELAY.port} | delay node |"),
        ("docs/how-to/deploy-three-machines.md", f"| {BROKER.admin_port}, "),
        ("docs/how-to/deploy-three-machines.md", f", {DELAY.admin_port} | admin pages of nodes |"),
        ("docs/how-to/deploy-three-machines.md", f"default minimum of {BrokerGroup().in_sync_min}, its groups"),
        (
            "docs/replication.md",
            f"until the master's heartbeats have been missing for {live_groups.EXPIRY_SECONDS:g} s",
        ),
        ("docs/security.md", f"| metaserver, TCP ({META.tcp_port}) |"),
        ("docs/security.md", f"| metaserver, HTTP ({META.http_port}) |"),
        ("docs/security.md", f"| broker node, TCP ({BROKER.port}, ...) |"),
        ("docs/security.md", f"| delay node, TCP ({DELAY.port}) |"),
        ("docs/security.md", f"`answer_total_bytes_max` ({BROKER.answer_total_bytes_max >> 20} MiB)"),
    ],
)
def test_a_page_has_the_default_of_the_code(page: str, text: str) -> None:
    assert text in " ".join((PROJECT / page).read_text().split())
