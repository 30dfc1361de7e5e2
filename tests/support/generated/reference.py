"""The pages of docs/reference that are made from the code: `python -m tests.support.generated.reference` writes them."""

import argparse
import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from importlib import import_module
from typing import Any

import qmq
import qmq_testing
from broker_node.options import BrokerOptions
from console.options import ConsoleOptions
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from qmq import cli, errors
from qmq.options import flag_of, variable_of
from qmq.protocol import codes, kinds, structures
from qmq.protocol.codes import Command
from qmq.protocol.extensions import Refusal
from qmq.protocol.replication import TimedCommits
from qmq.protocol.structures import Structure
from tests.support.generated import error_codes
from tests.support.generated.command_table import COMMANDS, reachable
from tests.support.servers.processes import PROJECT

REPLACED = {"clock", "make_id", "pool"}
"""Arguments that only tests and other clients give."""
OTHER_NAMES = {
    "qmq.idempotent.dbapi": ("once", "mark"),
    "qmq.idempotent.redis": ("once",),
    "qmq.idempotent.sqlalchemy": ("once",),
    "qmq.integrations.django": ("producer", "send_on_commit"),
    "qmq.integrations.django.idempotent": ("once",),
    "qmq.integrations.django.outbox": ("flush", "send", "send_many"),
    "qmq.middleware.logs": ("LoggingMiddleware", "MessageContextFilter"),
    "qmq.middleware.opentelemetry": ("OpenTelemetryMiddleware",),
    "qmq.middleware.prometheus": ("PrometheusMiddleware",),
    "qmq.outbox.dbapi": ("Outbox", "Transaction"),
    "qmq.outbox.sqlalchemy": ("AsyncOutbox", "Outbox"),
    "qmq_testing": tuple(qmq_testing.__all__),
}
"""Public names outside of `qmq`, by module."""
NOT_CONSTRUCTED = {"AsyncServer", "AsyncTime", "Batch", "Delivery", "ServerTime", "StoredMessage", "Transaction"}
"""Classes whose instances applications only receive."""
AS_COROUTINES = {"AsyncServer", "AsyncTime"}
"""Classes with the methods of another class, which are described there."""
INTERNAL = {
    "Consumer.send_back",
    "Producer.send_entry",
    "Producer.send_message",
    "Server.nodes",
    "Server.run",
    "Server.run_async",
    "ServerTime.clock",
}
"""Members that only modules of the project use."""
MADE = "This page is generated from the code (`python -m tests.support.generated.reference`)."


def _settings_table(cls: type[Any], process: str) -> str:
    """The settings of a process as a table."""
    lines = ["| flag | environment | default | unit | meaning |", "|---|---|---|---|---|"]
    for item in fields(cls):
        info = item.metadata["option"]
        text = info.help + (f" ({', '.join(info.choices)})" if info.choices else "")
        default = f"`{item.default}`" if item.default != "" else ""
        flag = "" if info.is_secret else f"`{flag_of(item.name)}`"
        lines.append(f"| {flag} | `{variable_of(item, process)}` | {default} | {info.unit} | {text} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Settings of all processes."""
    console = ["| Variable | Default | Unit | Meaning |", "|---|---|---|---|"]
    for item in fields(ConsoleOptions):
        info = item.metadata["option"]
        default = f"`{item.default}`" if item.default not in ("", False) else ""
        console.append(f"| `{variable_of(item, '')}` | {default} | {info.unit} | {info.help} |")
    return (
        f"# Settings\n\n{MADE} Settings of nodes and metaserver can be given as a flag, in the environment, or in a TOML file"
        " named with `--config`; the first of these that contains a setting counts."
        " Settings of the console come from the environment.\n\n"
        f"## Broker node: `python -m broker_node`\n\n{_settings_table(BrokerOptions, 'broker')}\n"
        f"## Delay node: `python -m delay_node`\n\n{_settings_table(DelayOptions, 'delay')}\n"
        f"## Metaserver: `python -m metaserver`\n\n{_settings_table(MetaOptions, 'meta')}\n"
        "## Console, API and background jobs\n\n" + "\n".join(console) + "\n\n"
        "## Django projects\n\nThe settings of projects that send and consume, such as `QMQ_URL`, are in"
        " [Send in a transaction](../how-to/transactions.md#django).\n"
    )


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _commands(inner)
            return
    yield parser


def cli_page() -> str:
    """All commands of `qmq`."""
    lines = [
        "# Command line", "", MADE, "",
        "Exit codes: 0 success, 1 failure, 2 invalid usage, 3 timed out with fewer messages than requested. Commands that can't"
        " reach a metaserver, broker or delay node fail within ten seconds.", "",
    ]  # fmt: skip
    for command in _commands(cli.command_parser()):
        usage = re.sub(r"\s+", " ", command.format_usage().removeprefix("usage: ")).strip()
        lines += [
            f"## {command.prog}",
            "",
            *([command.description, ""] if command.description else []),
            f"    {usage}",
            "",
        ]
        rows = []
        for action in command._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            name = ", ".join(action.option_strings) or action.dest
            value = (
                action.metavar
                if isinstance(action.metavar, str)
                else "|".join(action.choices)
                if action.choices
                else ""
            )
            shown = f"`{name} {value}`" if value and action.option_strings else f"`{name}`"
            rows.append(f"| {shown.replace('|', chr(92) + '|')} | {(action.help or '').replace('|', chr(92) + '|')} |")
        lines += ["| Argument | Meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _signature(thing: Callable[..., Any], name: str) -> str:
    """The name and arguments as they stand in the source, without those that tests replace."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = function.args
    arguments.args = [one for one in arguments.args if one.arg != "self"]
    kept = [
        (one, value)
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if one.arg not in REPLACED
    ]
    arguments.kwonlyargs, arguments.kw_defaults = [one for one, _ in kept], [value for _, value in kept]
    returns = (
        ""
        if function.returns is None or ast.unparse(function.returns) == "None"
        else f" -> {ast.unparse(function.returns)}"
    )
    # Not by the source: a method that blocks may wrap a coroutine function.
    prefix = "async " if inspect.iscoroutinefunction(thing) or inspect.isasyncgenfunction(thing) else ""
    return f"{prefix}{name}({ast.unparse(arguments)}){returns}"


def _described(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").replace("Args:\n", "Arguments:\n")


def _fields(kind: Any) -> list[str]:
    """Fields of a dataclass with their defaults and the texts below them in the source."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    lines = ["| Field | Default | Meaning |", "|---|---|---|"]
    for statement, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        if (
            not isinstance(statement, ast.AnnAssign)
            or not isinstance(statement.target, ast.Name)
            or statement.target.id.startswith("_")
        ):
            continue
        text = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = " ".join(str(following.value.value).split())
        default = f"`{ast.unparse(statement.value)}`" if statement.value is not None else ""
        lines.append(f"| `{statement.target.id}` | {default} | {text} |")
    return [*lines, ""] if len(lines) > 2 else []


def python_page() -> str:
    """The public names of `qmq` and of the modules beside it."""
    lines = ["# Python API", "", MADE, "", "## Import", "", "| Module | Names |", "|---|---|"]
    modules = {"qmq": tuple(sorted(qmq.__all__)), **OTHER_NAMES}
    for module, names in modules.items():
        links = (f"[{name}](#{_heading(module, name).lower().replace('.', '')})" for name in names)
        lines.append(f"| `{module}` | {', '.join(links)} |")
    lines += [
        "| `qmq.sync` | the clients of `qmq` without `await` |",
        "| `qmq.errors` | all [errors](#errors) |",
        "",
    ]
    for module, names in modules.items():
        for name in names:
            lines += _name_section(_heading(module, name), name, getattr(import_module(module), name))
    lines += ["## Errors", "", "| Class | Code | Retriable | Meaning |", "|---|---|---|---|"]
    for error in sorted(_errors(errors.QmqError), key=lambda kind: kind.__name__):
        meaning = " ".join(_described(error.__doc__).split("\n\n")[0].split())
        lines.append(f"| `{error.__name__}` | `{error.code}` | {'yes' if error.retriable else 'no'} | {meaning} |")
    return "\n".join(lines) + "\n"


def _heading(module: str, name: str) -> str:
    """The heading of a name; with the module, where it is not `qmq`: a name may be in two of them."""
    return name if module == "qmq" else f"{module}.{name}"


def _name_section(heading: str, name: str, thing: Any) -> list[str]:
    """The description of a class with its public members, or of a function."""
    if not inspect.isclass(thing):
        return [f"## {heading}", "", "```text", _signature(thing, name), "", _described(thing.__doc__), "```", ""]
    lines = [f"## {heading}", ""]
    has_arguments = not is_dataclass(thing) and inspect.isfunction(thing.__init__) and name not in NOT_CONSTRUCTED
    if not issubclass(thing, BaseException):
        lines += ["```text", _signature(thing.__init__, name) if has_arguments else name, "```", ""]
    lines += ["```text", _described(thing.__doc__), "```", ""]
    if is_dataclass(thing) or issubclass(thing, tuple):
        lines += _fields(thing)
    for key, member in () if name in AS_COROUTINES else sorted(vars(thing).items()):
        if (
            key.startswith("_")
            or f"{name}.{key}" in INTERNAL
            or not (inspect.isfunction(member) or isinstance(member, property))
            or not member.__doc__
        ):
            continue
        head = key if isinstance(member, property) else _signature(member, key)
        lines += [f"### {name}.{key}", "", "```text", head, "", _described(member.__doc__), "```", ""]
    return lines


def _errors(kind: type[errors.QmqError]) -> Iterator[type[errors.QmqError]]:
    yield kind
    for inner in kind.__subclasses__():
        if inner.__module__ == errors.__name__:
            yield from _errors(inner)


GENERATED = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of generated -->)", re.S)
"""A generated part of a page that is written by hand otherwise."""


def wire_page() -> str:
    """docs/reference/wire.md with its generated parts up to date; the rest is as it is in the file."""
    parts = {"commands": _wire_commands, "numbers": _wire_numbers, "structures": _wire_structures}
    text = (PROJECT / "docs/reference/wire.md").read_text()
    return GENERATED.sub(lambda found: f"{found[1]}{parts[found[2]]()}\n{found[3]}", text)


def _wire_commands() -> str:
    lines = ["| Code | Command | From | To | Request | Answer | Since | |", "|---|---|---|---|---|---|---|---|"]
    for command, info in COMMANDS.items():
        request, response = (_linked(kind) if kind else "empty" for kind in (info.request, info.response))
        if command is Command.SEND_MESSAGE:
            request = "[entries](#4-send)"
        if info.is_one_way:
            response = "none"
        lines.append(
            f"| {int(command)} | {command.name} | {info.sender} | {', '.join(info.receivers)} | {request} | {response}"
            f" | {info.since} | {info.summary} |"
        )
    return "\n".join(lines)


def _wire_numbers() -> str:
    kinds = [kind for kind in vars(codes).values() if inspect.isclass(kind) and issubclass(kind, IntEnum)]
    return "\n".join(
        f"- `{kind.__name__}`: {', '.join(f'{int(item)} {item.name}' for item in kind)}"
        for kind in kinds
        if kind not in (IntEnum, Command)
    )


def _linked(kind: type[Structure]) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _wire_structures() -> str:
    lines: list[str] = []
    for kind in reachable(
        (Refusal, *(kind for info in COMMANDS.values() for kind in (info.request, info.response)), TimedCommits)
    ):
        rows = [_wire_row(field) for field in structures.fields_of(kind)]
        lines += [f"### {kind.__name__}", "", *_described(kind.__doc__).splitlines(), ""]
        for entries, head in ((True, "| Map key | Value | When missing |"), (False, "| Field | Kind | |")):
            some = [row for is_entry, row in rows if is_entry is entries]
            lines += [head, "|---|---|---|", *some, ""] if some else []
    return "\n".join(lines[:-1])


def _wire_row(field: structures.Field) -> tuple[bool, str]:
    """A field's row, and whether it is an entry of the map."""
    kind = field.kind
    if isinstance(kind, kinds.MapKind):
        has_default = field.default is not kinds.UNSET
        text = kind.text(field.default) if has_default else ""
        missing = f"`{text}`" if text else "empty" if has_default else ""
        key = f"{field.key}KEY" if isinstance(kind, kinds.MapPrefix) else field.key
        note = f"{missing}, then left out" if kind.is_optional else missing
        return True, f"| `{key}` | {kind.label} | {note} |"
    if isinstance(kind, structures.ByVersion):
        label = "; ".join(f"version {since} on: {one.label}" for since, one in sorted(kind.kinds.items()))
        return False, f"| `{field.name}` | {label} | |"
    return False, f"| `{field.name}` | {kind.label} | {f'always {field.default}' if field.is_constant else ''} |"


def errors_page() -> str:
    """docs/reference/errors.md with its generated part up to date; the rest is as it is in the file."""
    text = (PROJECT / "docs/reference/errors.md").read_text()
    return GENERATED.sub(lambda found: f"{found[1]}{error_codes.table()}\n{found[3]}", text)


PAGES = {
    "docs/reference/settings.md": settings_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/python-api.md": python_page,
    "docs/reference/wire.md": wire_page,
    "docs/reference/errors.md": errors_page,
}

if __name__ == "__main__":
    for path, make in PAGES.items():
        (PROJECT / path).write_text(make())
