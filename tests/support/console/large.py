"""A database as large as the lists are measured with: 1,000 subjects, 5,000 consumer groups unless told, and enough of all else."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from console.accounts.models import ApiToken, User, UserSession
from console.alerts.models import Alert, AlertChannel, AlertRule, AlertState, ChannelKind, Silence
from console.alerts.rules import Kind, Severity
from console.analytics import services as analytics
from console.analytics.models import AnalyticsRun
from console.analytics.steps import Step
from console.outbox.models import OutboxDatabase
from metaserver.choices import GroupKind, GroupState
from metaserver.models import AuditEntry, BrokerGroup, ConsumerGroup, Node, Subject, SubjectRoute, Team
from tests.support.analytics.summaries import lag_row

SUBJECTS = 1_000
GROUPS_OF_ONE = 5
BROKER_GROUPS = 30
OTHERS = 600
"""Rows of each other list: more than the largest page."""


def fill(person: User, count: int = SUBJECTS) -> dict[str, str]:
    """Fill an empty database with so many subjects, each with five consumer groups; what addresses of the API may name."""
    now = timezone.now()

    def at(number: int) -> Any:
        return now - timedelta(seconds=number)

    teams = Team.objects.bulk_create([Team(name=f"team{number}") for number in range(OTHERS)])
    brokers = BrokerGroup.objects.bulk_create(
        [
            BrokerGroup(
                name=f"g{number:02}", kind=GroupKind.BROKER, state=GroupState.READ_WRITE, master=f"g{number:02}-node",
                in_sync=[f"g{number:02}-node"],
            )
            for number in range(BROKER_GROUPS)
        ]
    )  # fmt: skip
    Node.objects.bulk_create(
        [
            Node(node_id=f"{group.name}-node", broker_group=group, role=0, address="127.0.0.1:1", leased_at=at(1))
            for group in brokers
        ]
    )
    subjects = Subject.objects.bulk_create(
        [
            Subject(
                name=f"subject{number:04}", description="what it is for " * 5, owner=teams[number % 50], tags=["a", "b"],
                retention_hours=24.0, archived_at=at(0) if number % 10 == 0 else None,
            )
            for number in range(count)
        ],
        batch_size=1000,
    )  # fmt: skip
    SubjectRoute.objects.bulk_create(
        [
            SubjectRoute(subject=subject, broker_groups=[f"g{number % 30:02}", f"g{(number + 1) % 30:02}"], version=1)
            for number, subject in enumerate(subjects)
        ],
        batch_size=1000,
    )
    ConsumerGroup.objects.bulk_create(
        [
            ConsumerGroup(
                subject=subjects[number % count], name=f"group{number // count}", is_paused=number % 100 == 0,
                has_pauses=number % 100 == 0,
            )
            for number in range(GROUPS_OF_ONE * count)
        ],
        batch_size=1000,
    )  # fmt: skip
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(at=at(number), actor="ada", action="subject.update", target=f"subject{number % 1000:04}", after={})
            for number in range(2 * SUBJECTS)
        ],
        batch_size=1000,
    )  # fmt: skip
    users = User.objects.bulk_create([User(username=f"user{number:03}", role="operator") for number in range(OTHERS)])
    User.teams.through.objects.bulk_create(
        [User.teams.through(user=user, team=teams[number % 50]) for number, user in enumerate(users)]
        + [User.teams.through(user=user, team=teams[0]) for user in users if users.index(user) % 50]
    )
    tokens = ApiToken.objects.bulk_create(
        [
            ApiToken(
                name=f"t{number}", owner=person, prefix=f"p{number}", digest="d", expires_at=now + timedelta(days=1)
            )
            for number in range(OTHERS)
        ]
    )
    sessions = UserSession.objects.bulk_create(
        [UserSession(user=person, started_at=at(number), seen_at=at(number)) for number in range(OTHERS)]
    )
    channels = AlertChannel.objects.bulk_create(
        [AlertChannel(name=f"channel{number:03}", kind=ChannelKind.EMAIL) for number in range(OTHERS)]
    )
    kind, severity = next(iter(Kind)), next(iter(Severity))
    words: dict[str, Any] = {"kind": kind.value, "severity": severity.value, "threshold": 5.0}
    rules = AlertRule.objects.bulk_create(
        [AlertRule(name=f"rule{number:03}", clear_threshold=1.0, **words) for number in range(OTHERS)]
    )
    AlertRule.channels.through.objects.bulk_create(
        [
            AlertRule.channels.through(alertrule=rule, alertchannel=channels[(number + step) % OTHERS])
            for number, rule in enumerate(rules)
            for step in range(2)
        ]
    )
    alerts = Alert.objects.bulk_create(
        [
            Alert(
                rule=rules[number % OTHERS], rule_name=f"rule{number % OTHERS:03}", target=f"subject{number:04}", value=6.0,
                state=AlertState.FIRING, since=at(number), fired_at=at(number), last_seen_at=now, open_key=f"k{number}",
                place=number, **words,
            )
            for number in range(OTHERS)
        ]
    )  # fmt: skip
    silences = Silence.objects.bulk_create(
        [
            Silence(
                rule=f"none{number}", starts_at=at(60), ends_at=now + timedelta(hours=1), reason="r", created_by="ada"
            )
            for number in range(OTHERS)
        ]
    )
    runs = AnalyticsRun.objects.bulk_create(
        [AnalyticsRun(job="job", started_at=at(number)) for number in range(OTHERS)]
    )
    run = analytics.start_run("lag", from_at=now - timedelta(hours=2), to_at=now)
    moment_ms = int(now.timestamp() * 1000) - Step.TEN_MINUTES.ms
    moment_ms -= moment_ms % Step.TEN_MINUTES.ms
    summaries = [lag_row(moment_ms, f"subject{number:04}", "group0") for number in range(OTHERS)]
    analytics.publish(run, "lag", summaries, step=Step.TEN_MINUTES)
    databases = OutboxDatabase.objects.bulk_create(
        [OutboxDatabase(name=f"database{number:03}", kind="sqlite", database="none") for number in range(OTHERS)]
    )
    # MariaDB does not say the keys of rows made in bulk.
    return {
        "subject": subjects[1].name,
        "group": "group0",
        "name": "g01",
        "node_id": "g01-node",
        "team": "team1",
        "broker_group": "g01",
        "sequence": "1",
        "message_id": "m1",
        "user_id": str(User.objects.get(username=users[1].username).pk),
        "token_id": str(ApiToken.objects.get(prefix=tokens[1].prefix).pk),
        "session_id": str(
            UserSession.objects.filter(started_at=sessions[1].started_at).values_list("pk", flat=True)[0]
        ),
        "rule": str(AlertRule.objects.get(name=rules[1].name).pk),
        "alert": str(Alert.objects.get(open_key=alerts[1].open_key).pk),
        "silence": str(Silence.objects.get(rule=silences[1].rule).pk),
        "channel": str(AlertChannel.objects.get(name=channels[1].name).pk),
        "database": str(OutboxDatabase.objects.get(name=databases[1].name).pk),
        "table": "lag",
        "run_id": str(AnalyticsRun.objects.filter(started_at=runs[1].started_at).values_list("pk", flat=True)[0]),
    }
