"""What an error says to a person: not the Java and Python stacks around it."""

import re

REASON_CHARS_MAX = 500
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?:: (.+))?$")
_GATEWAY = "An error occurred while calling "


def reason(error: BaseException) -> str:
    """One line: the last Python exception of a task or of the data source where Spark hands on a traceback, else what Java said,
    else what the error says."""
    text = str(error).strip()
    lines = text.splitlines()
    found = ""
    for number, line in enumerate(lines):
        if line.strip().endswith(_TRACEBACK):
            found = _raised(lines[number + 1 :]) or found
    if not found and lines and lines[0].startswith(_GATEWAY) and len(lines) > 1:
        found = lines[1].lstrip(": ")
    return (found or (lines[0] if lines else type(error).__name__))[:REASON_CHARS_MAX]


def _raised(lines: list[str]) -> str:
    """What a traceback ends with: the first line behind it that is not indented."""
    for line in lines:
        if line[:1].isspace() or not line:
            continue
        found = _RAISED.match(line)
        return f"{found[1]}: {found[2]}" if found and found[2] else line
    return ""
