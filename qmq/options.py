"""Settings of a daemon: one frozen dataclass a process, each field with its text, unit and limits.

A setting comes from its flag, else from the environment (QMQ_<PROCESS>_<NAME>), else from a TOML file (--config), else
from its default. A wrong one ends the process with one line that names it. Secrets have no flag, because command lines are visible
to all users of a machine, and a wrong one's value is not printed.
"""

import dataclasses
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NoReturn, TypeVar

from qmq.errors import SettingError

T = TypeVar("T")
NODE_TOKEN_HELP = "the node secret that all processes of a system share (docs/security.md); empty: none is required"
NODE_TOKEN_FILE_HELP = "file that holds the node secret, where it is not set directly"
METRICS_TOKEN_HELP = "bearer token with which /metrics may be read from other machines"
WRONG_USE = 2
"""Exit code for wrong flags and settings."""


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """Describes a setting in --help and in the documentation."""

    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    variable: str = ""
    """The environment variable, where it is the same for all processes."""
    is_secret: bool = False


def option(default: T, **info: Any) -> T:
    """A setting with its default; for fields of an options dataclass. The arguments are those of `OptionInfo`."""
    described = OptionInfo(**info)
    result: T = field(default=default, metadata={"option": described}, repr=not described.is_secret)
    return result


def size_option(default: int, help: str, *, minimum: int = 64 << 10) -> int:
    return option(default, help=help, unit="bytes", minimum=minimum)


def _info(item: "dataclasses.Field[Any]") -> OptionInfo:
    info = item.metadata.get("option")
    assert isinstance(info, OptionInfo), f"{item.name} lacks its option(...)"
    return info


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable_of(item: "dataclasses.Field[Any]", process: str) -> str:
    """The environment variable of a field; `process` is "" for settings that several processes read."""
    return _info(item).variable or "_".join(filter(None, ("QMQ", process, item.name))).upper()


def convert(item: "dataclasses.Field[Any]", value: object, source: str) -> Any:
    """A setting's text, or TOML value, as its type. Raises SettingError with source, value and what is legal."""
    info, (read, legal) = _info(item), _KINDS[item.type if isinstance(item.type, str) else item.type.__name__]
    if info.choices:
        legal = "one of " + ", ".join(info.choices)
    elif info.minimum is not None and info.maximum is not None:
        legal += f" from {info.minimum:g} to {info.maximum:g}"
    elif info.minimum is not None:
        legal += f" of at least {info.minimum:g}"
    wrong = SettingError(f"{source} is {value!r}; must be {legal}")
    try:
        converted = read(str(value))
    except ValueError as error:
        raise wrong from error
    if (
        (info.choices and converted not in info.choices)
        or (info.minimum is not None and converted < info.minimum)
        or (info.maximum is not None and converted > info.maximum)
    ):
        raise wrong
    return converted


def _as_bool(text: str) -> bool:
    word = text.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


_KINDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "bool": (_as_bool, "true or false"),
    "int": (lambda text: int(text.replace("_", "")), "a whole number"),
    "float": (float, "a number"),
    "str": (str, "text"),
}
"""What reads the text of a setting, by its type, and what it must be."""


def parse_options(
    cls: type[T], argv: Sequence[str], environ: Mapping[str, str], *, prog: str, process: str, description: str = ""
) -> T:
    """Settings from flags, environment and file. Raises SettingError with one line, or SystemExit after --help.

    Args:
        process: the middle of environment names: QMQ_<PROCESS>_<NAME>.
    """
    items = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]
    flags = _read_flags(items, argv, process, lambda: print_help(cls, prog, process, description))
    values: dict[str, Any] = {}
    config = flags.pop("config", None) or environ.get(f"QMQ_{process.upper()}_CONFIG")
    if config:
        values.update(_read_file(items, str(config)))
    for name, item in items.items():
        variable = variable_of(item, process)
        if variable in environ:
            values[name] = convert(item, environ[variable], variable)
    for name, value in flags.items():
        values[name] = convert(items[name], value, flag_of(name))
    return cls(**values)


def _read_flags(items: Mapping[str, Any], argv: Sequence[str], process: str, show_help: Any) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            show_help()
            raise SystemExit(0)
        name, equals, value = word.partition("=")
        key = name.removeprefix("--").replace("-", "_")
        if key in items and _info(items[key]).is_secret:
            where = f"{variable_of(items[key], process)}, or in a file named with --config"
            raise SettingError(f"{name} is no flag, because other users can read command lines: set it as {where}")
        if not name.startswith("--") or (key not in items and key != "config"):
            raise SettingError(f"{word!r} is no flag of this command; --help lists them")
        if not equals:
            if key != "config" and items[key].type in (bool, "bool"):
                value = "true"
            elif not rest:
                raise SettingError(f"{name} needs a value")
            else:
                value = rest.pop(0)
        flags[key] = value
    return flags


def _read_file(items: Mapping[str, Any], path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise SettingError(f"--config {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"--config {path}: {error}") from error
    unknown = sorted(set(content) - set(items))
    if unknown:
        raise SettingError(f"--config {path}: {unknown[0]!r} is no setting of this process")
    return {name: convert(items[name], value, f"{name} in {path}") for name, value in content.items()}


def print_help(cls: type[Any], prog: str, process: str, description: str) -> None:
    out = sys.stdout.write
    out(f"usage: {prog} [--config FILE] [flags]\n\n{description}\n\n")
    for item in fields(cls):
        info = _info(item)
        unit = f" ({info.unit})" if info.unit else ""
        default = item.default if item.default is not MISSING else ""
        # What has another variable than the last line says, is listed with it.
        name = info.variable if info.is_secret else flag_of(item.name)
        also = f" (environment: {info.variable})" if info.variable and not info.is_secret else ""
        out(f"  {name:28} {info.help}{unit}{also}; default {default!r}\n")
    out(
        f"\nEach can be set in the environment as QMQ_{process.upper()}_<NAME>, or in a TOML file given with --config.\n"
    )


def exit_wrong(prog: str, error: Exception) -> NoReturn:
    """End the process with one line about a wrong setting."""
    sys.stderr.write(f"{prog}: {error}\n")
    raise SystemExit(WRONG_USE)
