"""Notifications in words, in the language of their channel: titles of messages, and facts as pairs of label and text. Pure.

The names of kinds and built-in rules are those of the console (frontend/src/i18n/*/alerts.json; a test compares them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from console.alerts.builtin import BUILTIN
from console.alerts.rules import Event, Kind

PRODUCT = "PyQMQ"
"""Part of each message to a chat: robots that require a keyword accept messages with it."""
_SECONDS = {Kind.TIME_LAG, Kind.DRAIN_TIME, Kind.DISK_STUCK, Kind.SCRUB, Kind.LATENESS, Kind.CLOCK, Kind.OUTBOX_AGE}
_YES = {Kind.ANOMALY, Kind.NO_CANDIDATE, Kind.ONE_RACK, Kind.REPLICATION, Kind.OUTBOX_UNREACHABLE, Kind.UNKNOWN}
"""Kinds whose value is 1 or 0: there is no number to show."""
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Language(StrEnum):
    """A language of notifications."""

    EN = "en"
    ZH = "zh"


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a language."""

    events: Mapping[str, str]
    severities: Mapping[str, str]
    resolutions: Mapping[str, str]
    units: Mapping[str, str]
    """Of kinds that are neither seconds nor yes or no; with a leading space where the language has one."""
    states: Sequence[str]
    """Of broker groups, by value."""
    times: Mapping[str, str]
    rules: Mapping[str, str]
    """Names of built-in rules, as long as their names in the database are the original ones."""
    labels: Mapping[str, str]
    met: str
    """The value of a kind that has only two."""
    cleared: str
    unmeasured: str
    retries: str
    more: str
    several: str
    threshold: str

    def title(self, body: Mapping[str, Any]) -> str:
        """One line that says what happened to which target."""
        alert = body["alert"]
        severity = self.severities.get(alert["severity"], alert["severity"])
        return f"[{self.events[body['event']]}] {severity}: {self.rule(alert['rule'])}: {alert['target']}"

    def rule(self, name: str) -> str:
        """A rule's name, as the console shows it."""
        return self.rules.get(name, name)

    def facts(self, body: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Label and text of what a notification says."""
        alert, labels = body["alert"], self.labels
        value = self.value(alert["kind"], alert["value"])
        if alert["kind"] not in _YES:
            value += self.threshold.format(self.value(alert["kind"], alert["threshold"]))
        if alert.get("retries"):
            value += self.retries.format(alert["retries"])
        found = [
            (labels["rule"], self.rule(alert["rule"])),
            (labels["target"], alert["target"]),
            (labels["owner"], alert["owner"] or "-"),
            (labels["value"], value),
            (labels["since"], _moment(alert["since"])),
        ]
        if alert.get("why"):
            found.append((labels["why"], alert["why"]["text"]))
        if alert["resolved_at"]:
            why = self.resolutions.get(alert["resolution"], alert["resolution"])
            found.append((labels["resolved"], f"{_moment(alert['resolved_at'])} ({why})"))
        return found

    def value(self, kind: str, value: float | None) -> str:
        """A value with its unit."""
        if value is None:
            return self.unmeasured
        if kind == Kind.GROUP_STATE:
            return self.states[min(int(value), len(self.states) - 1)]
        if kind in _YES:
            return self.met if value > 0 else self.cleared
        return self._lasting(value) if kind in _SECONDS else f"{_number(value)}{self.units.get(kind, '')}"

    def _lasting(self, value: float) -> str:
        """Seconds in the two largest units."""
        if value < 60:
            return f"{_number(value)}{self.times['s']}"
        left, parts = int(value), []
        for seconds, unit in _TIMES:
            if left >= seconds:
                parts.append(f"{left // seconds}{self.times[unit]}")
                left %= seconds
        return " ".join(parts[:2])

    def heading(self, bodies: Sequence[Mapping[str, Any]]) -> str:
        """The title of a message with these notifications."""
        if len(bodies) == 1:
            return f"{PRODUCT} {self.title(bodies[0])}"
        counts = {event: sum(1 for body in bodies if body["event"] == event) for event in self.events}
        parts = [f"{count} {self.events[event].lower()}" for event, count in counts.items() if count]
        return f"{PRODUCT} {self.several.format(', '.join(parts))}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _moment(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"


_ENGLISH = Wording(
    events={Event.FIRING: "FIRING", Event.RESOLVED: "RESOLVED", "test": "TEST"},
    severities={},
    resolutions={"target_gone": "target removed", "rule_changed": "rule changed", "rule_deleted": "rule deleted"},
    units={
        Kind.LAG: " messages", Kind.DEAD_LETTERS: " dead letters", Kind.DUPLICATE_IDS: " consumer IDs",
        Kind.COPIES: " copies missing", Kind.BELOW_MINIMUM: " members missing", Kind.ROLE_CHANGES: " role changes",
        Kind.DISK: "%", Kind.DISK_IN_A_DAY: "%", Kind.DAMAGE: " corrupted ranges", Kind.JOB_LATE: " intervals",
        Kind.OUTBOX_FAILED: " rows",
    },
    states=("read_write", "read_only or write_only", "offline"),
    times={"d": " d", "h": " h", "min": " min", "s": " s"},
    rules={},
    labels={
        "rule": "Rule", "target": "Target", "owner": "Owner", "value": "Value", "since": "Since", "resolved": "Resolved",
        "why": "Cause",
    },
    met="yes",
    cleared="no",
    unmeasured="not measurable",
    retries=", {} pending retries",
    more="… and {} more. See the console.",
    several="alerts: {}",
    threshold=" (threshold {})",
)  # fmt: skip
RULES_ZH = {
    "group_offline": "Broker 组离线", "copies": "副本数少于配置", "below_minimum": "同步成员少于最小值",
    "no_candidate": "没有成员能接替主节点", "one_rack": "所有副本在同一机架",
    "role_changes": "一小时内主节点变更超过 3 次", "replication": "复制告警",
    "disk": "磁盘使用率超过 85%", "disk_in_a_day": "磁盘可能在一天内写满",
    "disk_stuck": "磁盘无法完成写入", "damage": "消息损坏", "scrub": "存储数据未在 7 天内重新读取",
    "time_lag": "消费组延迟超过 15 分钟", "dead_letters": "出现新的死信", "duplicate_ids": "消费者 ID 重复",
    "lateness": "延时消息投递偏差超过 5 秒", "clock": "延时节点时钟错误", "job_late": "后台任务逾期",
    "outbox_age": "发件箱滞留超过 5 分钟", "outbox_failed": "发件箱有待处理的行",
    "outbox_unreachable": "发件箱数据库不可用", "unknown": "超过一分钟没有测量值",
}  # fmt: skip
"""Names of built-in rules by key."""
_CHINESE = Wording(
    events={Event.FIRING: "触发", Event.RESOLVED: "已恢复", "test": "测试"},
    severities={"critical": "严重", "warning": "警告"},
    resolutions={
        "cleared": "已恢复", "target_gone": "对象已不存在", "rule_changed": "规则已修改", "rule_deleted": "规则已删除",
    },
    units={
        Kind.LAG: " 条", Kind.DEAD_LETTERS: " 条", Kind.DUPLICATE_IDS: " 个", Kind.COPIES: " 个",
        Kind.BELOW_MINIMUM: " 个", Kind.ROLE_CHANGES: " 次", Kind.DISK: "%", Kind.DISK_IN_A_DAY: "%", Kind.DAMAGE: " 处",
        Kind.JOB_LATE: " 个周期", Kind.OUTBOX_FAILED: " 行",
    },
    states=("可读写", "只读或只写", "离线"),
    times={"d": " 天", "h": " 小时", "min": " 分钟", "s": " 秒"},
    rules={BUILTIN[key]["name"]: name for key, name in RULES_ZH.items()},
    labels={
        "rule": "规则", "target": "对象", "owner": "团队", "value": "当前值", "since": "开始时间", "resolved": "恢复时间",
        "why": "原因",
    },
    met="是",
    cleared="否",
    unmeasured="无法测量",
    retries="，其中 {} 条待重试",
    more="……另有 {} 个告警，请在控制台查看。",
    several="告警：{}",
    threshold="（阈值 {}）",
)  # fmt: skip
_WORDINGS = {Language.EN: _ENGLISH, Language.ZH: _CHINESE}


def words_of(language: str) -> Wording:
    """The words of a language (`Language`)."""
    return _WORDINGS[Language(language)]
