"""Every operation of the API with an example request."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from console.accounts.roles import Right

TEAM, FOREIGN = "shop", "warehouse"


RETRY, DEAD = "%RETRY%orders%tried", "%DEAD_RETRY%orders%dead"


LATER = (datetime.now(UTC) + timedelta(hours=2)).isoformat()


@dataclass(frozen=True)
class Case:
    """A valid request for one operation."""

    body: dict[str, Any] | None = None
    query: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    """What stands in the path instead of the world's value of that name."""
    right: Right | None = None
    """The right that this request takes, where it is another one than the view names."""
    shows: bool = False
    """Whether readers of shop's messages see SECRET."""
    only: frozenset[str] | None = None
    """For a resource that belongs to one caller: the callers that can see it. Other callers with the right get 404."""
    status: int = 200


def of_subject(**values: Any) -> tuple[Case, ...]:
    """The same request for a subject, its retry and its dead-letter subject."""
    shadows = (
        Case(arguments={"subject": name, "broker_group": f"{kind}_group", "sequence": f"{kind}_sequence"}, **values)
        for name, kind in ((RETRY, "retry"), (DEAD, "dead"))
    )
    return Case(**values), *shadows


OWN_OPERATOR = frozenset({"own operator"})


DELAYED = (Case({"message_id": "d-orders"}), Case({"message_id": "d-retry"}))


CASES: dict[str, tuple[Case, ...]] = {
    "alert_channels_list": (Case(),),
    "alert_channels_create": (Case({"kind": "email", "name": "more", "addresses": ["a@example.com"]}, status=200),),
    "alert_channels_get": (Case(),),
    "alert_channels_update": (Case({"is_enabled": False}),),
    "alert_channels_delete": (Case(arguments={"channel": "unused_channel"}),),
    "alert_channels_test": (Case({"reason": "try"}),),
    "alert_rules_list": (Case(),),
    "alert_rules_create": (
        Case({"kind": "lag", "name": "more", "target": "orders", "threshold": 5, "severity": "warning"}),
        Case({"kind": "lag", "name": "more", "target": f"{RETRY}/x", "threshold": 5, "severity": "warning"}),
        Case({"kind": "lag", "name": "more", "owner": TEAM, "threshold": 5, "severity": "warning"}),
    ),
    "alert_rules_get": (Case(),),
    "alert_rules_preview": (Case(query="kind=lag&threshold=5"),),
    "alert_rules_update": (
        Case({"is_enabled": False}),
        Case({"threshold": 7}, arguments={"rule": "team_rule"}),
        Case({"is_enabled": False}, arguments={"rule": "builtin_rule"}, right=Right.CHANGE_CLUSTER),
    ),
    "alert_rules_delete": (Case(), Case(arguments={"rule": "team_rule"})),
    "alerts_list": (Case(),),
    "alerts_get": (Case(),),
    "alerts_acknowledge": (Case({"reason": "on it"}),),
    "analytics_demo_get": (Case(),),
    "analytics_demo_replace": (Case({"reason": "x"}, status=409),),
    "analytics_runs_list": (Case(),),
    "analytics_runs_get": (Case(),),
    "analytics_tables_list": (Case(),),
    "analytics_tables_get": (Case(),),
    "analytics_tables_ranking": (Case(query="by=-lag_messages_max"),),
    "apply": (
        Case({"subjects": [{"name": "orders", "description": "x", "consumer_groups": ["more"]}]}),
        Case({"subjects": [{"name": "new", "owner": TEAM}]}),
        Case({"teams": [{"name": "more"}]}, right=Right.CHANGE_ACCOUNTS),
    ),
    "audit_list": (Case(),),
    "audit_verify": (Case(),),
    "broker_groups_list": (Case(),),
    "broker_groups_create": (Case({"name": "g9"}),),
    "broker_groups_get": (Case(),),
    "broker_groups_update": (Case({"description": "x"}),),
    "broker_groups_remove": (Case(arguments={"name": "spare"}),),
    "broker_groups_approve": (Case({"reason": "x"}, arguments={"name": "waiting"}),),
    "broker_groups_drain": (Case({"reason": "x"}),),
    "broker_groups_read_only": (Case({"reason": "x"}),),
    "broker_groups_members_remove": (Case({"node": "g1-a", "reason": "x"}, status=409),),
    "broker_groups_members_replace": (Case({"node": "g1-a", "replacement": "g1-z", "reason": "x"}),),
    "broker_groups_set_copies": (Case({"copies": 2, "in_sync_min": 1}),),
    "broker_groups_switch_over": (Case({"reason": "x"}, status=409),),
    "broker_groups_promote": (Case({"node": "g1-a", "reason": "x"}, status=409),),
    "broker_groups_remove_lost": (Case({"reason": "x"}, status=409),),
    "broker_groups_writable": (Case({"reason": "x"}),),
    "clients_list": (Case(), Case(query="subject=orders&differs=false")),
    "consumer_groups_list": (Case(),),
    "consumer_groups_create": (
        Case({"subject": "orders", "name": "more"}),
        Case({"subject": "orders", "name": "more", "start": "latest"}),
    ),
    "consumer_groups_get": (Case(),),
    "consumer_groups_update": (Case({"description": "x"}),),
    "consumer_groups_forget": (Case({"force": True, "reason": "x"}),),
    "consumer_groups_pause": (Case({"reason": "x"}), Case({"consumer_id": "c1"})),
    "consumer_groups_reset": (Case({"to": "earliest"}), Case({"to": "positions", "positions": {"g1": "0"}})),
    "consumer_groups_resume": (Case({"reason": "x"}),),
    "dead_letters_count": (Case(),),
    "dead_letters_all_causes": (Case(),),
    "dead_letters_list": (Case(arguments={"group": "dead"}, shows=True),),
    "dead_letters_causes": (Case(arguments={"group": "dead"}),),
    "dead_letters_get": (
        Case(
            arguments={"group": "dead", "broker_group": "dead_group", "sequence": "dead_sequence"},
            shows=True,
        ),
    ),
    "dead_letters_delete": (Case({"all": True, "expected": 2}, arguments={"group": "dead"}),),
    "dead_letters_replay": (
        Case({"all": True, "expected": 2}, arguments={"group": "dead"}),
        Case({"all": True, "expected": 2, "to": "subject", "force": True}, arguments={"group": "dead"}),
    ),
    "delayed_messages_list": (
        Case(shows=True),
        Case(query="subject=orders", shows=True),
        Case(query=f"subject={RETRY}".replace("%", "%25"), shows=True),
        Case(query="subject=orders&match=a%3Db", right=Right.READ_MESSAGES, shows=True),
        Case(query=f"subject={RETRY}".replace("%", "%25") + "&match=a%3Db", right=Right.READ_MESSAGES, shows=True),
    ),
    "delayed_messages_get": (
        Case(query="message_id=d-orders", shows=True),
        Case(query="message_id=d-retry", shows=True),
    ),
    "delayed_messages_cancel": DELAYED,
    "delayed_messages_deliver": DELAYED,
    "delayed_messages_reschedule": (
        Case({"message_id": "d-orders", "delay_seconds": 60}),
        Case({"message_id": "d-retry", "due_at": LATER}),
    ),
    "delayed_messages_bulk_cancel": (
        Case({"subject": "orders", "all": True, "expected": 1}),
        Case({"subject": RETRY, "all": True, "expected": 1}),
        Case({"subject": RETRY, "match": {"a": "b"}, "expected": 1}),
    ),
    "delayed_messages_calendar": (Case(),),
    "events_list": (Case(),),
    "flow": (Case(),),
    "history": (Case(query="subject=orders"),),
    "jump": (Case(query="q=ord"),),
    "lag_list": (Case(),),
    "me_get": (Case(),),
    "me_update": (Case({"first_name": "x"}),),
    "me_sessions": (Case(),),
    "me_end_sessions": (Case(),),
    "me_end_session": (Case(only=OWN_OPERATOR),),
    "nodes_may_stop": (Case(),),
    "nodes_list": (Case(),),
    "rehearsals": (Case(),),
    "nodes_get": (Case(),),
    "nodes_accept_log_loss": (Case({"log_end": "0", "reason": "x"}),),
    "outbox_databases_list": (Case(),),
    "outbox_databases_create": (Case({"kind": "sqlite", "name": "more", "database": "shop.sqlite3"}),),
    "outbox_databases_get": (Case(),),
    "outbox_databases_update": (Case({"rows_per_second_max": 100}), Case({"table": "qmq_msg_queue"})),
    "outbox_databases_delete": (Case(),),
    "outbox_databases_test": (Case({"reason": "try"}),),
    "outbox_rows_list": (Case(shows=True), Case(query="status=refused&limit=1", shows=True)),
    "outbox_rows_get": (Case(shows=True),),
    "outbox_rows_resend": (Case({"ids": [1]}), Case({"status": "refused", "expected": 1})),
    "outbox_rows_discard": (Case({"ids": ["1"], "status": "refused"}), Case({"status": "refused", "expected": 1})),
    "overview": (Case(),),
    "roles_list": (Case(),),
    "silences_list": (Case(),),
    "silences_create": (
        Case({"owner": TEAM, "ends_at": LATER, "reason": "x"}),
        Case({"ends_at": LATER, "reason": "x"}, right=Right.CHANGE_CLUSTER),
    ),
    "silences_get": (Case(),),
    "silences_end": (Case(), Case(arguments={"silence": "system_silence"}, right=Right.CHANGE_CLUSTER)),
    "saved_filters_list": of_subject(),
    "saved_filters_create": (Case({"name": "more", "filter": "region=eu"}),),
    "saved_filters_update": (Case({"name": "renamed"}, only=OWN_OPERATOR | {"own operator's token messages"}),),
    "saved_filters_delete": (Case(only=OWN_OPERATOR | {"own operator's token messages"}),),
    "subject_tree": (Case(),),
    "subjects_list": (Case(),),
    "subjects_create": (Case({"name": "new", "owner": TEAM}),),
    "subjects_get": (Case(),),
    "subjects_update": (Case({"description": "x"}), Case({"owner": TEAM}), Case({"owner": None})),
    "subjects_delete": (Case(arguments={"subject": "archived"}),),
    "subjects_archive": (Case({"reason": "x"}),),
    "messages_list": of_subject(shows=True),
    "messages_send": (Case({"properties": {"a": "b"}}), Case({"properties": {"a": "b"}, "delay_seconds": 60})),
    "messages_resend": (Case({"messages": [{"broker_group": "g1", "sequence": 0}]}),),
    "messages_find": (Case(query="message_id=m0&around=2026-01-01T00:00:00Z"),),
    "messages_get": of_subject(shows=True),
    "messages_trace": of_subject(shows=True),
    "messages_search": of_subject(shows=True),
    "subjects_masking_preview": (Case(query="role=operator&masking=[]", right=Right.CHANGE_MASKING, shows=True),),
    "subjects_placement": (Case(),),
    "subjects_place": (Case({"broker_groups": ["g1", "g2"]}),),
    "subjects_restore": (Case({"reason": "x"}),),
    "jobs_list": (Case(),),
    "jobs_get": (Case(arguments={"name": "job"}),),
    "jobs_disable": (Case({"reason": "x"}, arguments={"name": "job"}),),
    "jobs_enable": (Case({"reason": "x"}, arguments={"name": "job"}),),
    "jobs_run": (Case({"reason": "x"}, arguments={"name": "job"}),),
    "teams_list": (Case(),),
    "teams_create": (Case({"name": "more"}),),
    "teams_get": (Case(),),
    "teams_update": (Case({"description": "x"}),),
    "teams_delete": (Case(arguments={"team": "empty_team"}),),
    "teams_members": (Case(),),
    "teams_set_members": (Case({"members": ["bystander"]}),),
    "tokens_list": (Case(),),
    "tokens_create": (Case({"name": "more", "scopes": ["read"]}),),
    "tokens_revoke": (Case(only=OWN_OPERATOR | {"admin"}),),
    "users_list": (Case(),),
    "users_create": (Case({"username": "eve", "role": "viewer"}),),
    "users_get": (Case(),),
    "users_update": (Case({"role": "operator", "teams": [TEAM]}),),
    "users_unlock": (Case({"reason": "x"}),),
    "users_end_sessions": (Case({"reason": "x"}),),
}
