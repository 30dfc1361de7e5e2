"""`make screenshots`: every page of the console as a picture, with the demo's data, from a system of its own.

python -m tests.support.console.screenshots [--to FOLDER] [--all | --docs] [--axe] [NAME ...]

By default each page is shown in the looks that differ most on it; with `--all` in every one. `--docs` renews the pictures of the
documentation in docs/images: what an English desktop shows of a page without scrolling, with some minutes of data in the charts.

Ends with 1 when a page shows an error, is not there, or something went wrong in it (as
`tests.support.console.browser.Visit` has it); with `--axe` also when axe finds a violation in any picture.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from playwright.sync_api import Error, expect

from console.management.passwords import FILE as PASSWORDS
from tests.support.console.browser import DESKTOP, PHONE, Visit, chromium, visit
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import WHOLE, System
from tests.support.waiting import eventually

SHOW_SECONDS = 20.0
"""How long a page may take to show its data."""
RATE = "20"
DOCS_MESSAGES = 4000
"""Messages that the demo sends, once its data are loaded, before pictures of the documentation are taken: over three minutes."""

LOOKS = {
    "en": DESKTOP,
    "zh": replace(DESKTOP, locale="zh-CN"),
    "dark": replace(DESKTOP, colour_scheme="dark"),
    "zh-dark": replace(DESKTOP, locale="zh-CN", colour_scheme="dark"),
    "phone": PHONE,
    "phone-dark": replace(PHONE, colour_scheme="dark"),
    "phone-zh": replace(PHONE, locale="zh-CN"),
    "phone-zh-dark": replace(PHONE, locale="zh-CN", colour_scheme="dark"),
}
DOCS_LOOK = replace(DESKTOP, width=1280, height=800, timezone="UTC")
ALL = ("en", "zh", "dark", "phone", "phone-zh-dark")


@dataclass(frozen=True, slots=True)
class Shot:
    """A page and how it is looked at."""

    name: str
    path: str
    looks: tuple[str, ...] = ("en",)
    is_public: bool = False


SHOTS = (
    Shot("sign-in", "/sign-in", ALL, is_public=True),
    Shot("overview", "/", ALL),
    Shot("subjects", "/subjects", ALL),
    Shot("subject-tree", "/subjects?view=tree&open=order.%20payment.", ALL),
    Shot("subject", "/subjects/order.created", ("en", "zh", "phone")),
    Shot("subject-messages", "/subjects/order.created?tab=messages", ("en", "zh")),
    Shot("subject-tail", "/subjects/click.tracked?tab=tail"),
    Shot("subject-groups", "/subjects/order.created?tab=groups"),
    Shot("subject-placement", "/subjects/order.created?tab=placement"),
    Shot("subject-settings", "/subjects/order.created?tab=settings"),
    Shot("groups", "/groups", ALL),
    Shot("group", "/groups/order.created/fraud-check", ("en", "zh", "dark", "phone")),
    Shot("clients", "/clients", ALL),
    Shot("brokers", "/brokers", ("en", "zh", "dark", "phone")),
    Shot("broker", "/brokers/g1", ("en", "phone")),
    Shot("delayed", "/delayed", ("en", "zh", "dark", "phone")),
    Shot("dead-letters", "/dead-letters", ("en", "zh")),
    Shot("dead-letters-of-group", "/dead-letters/payment.requested/card-gateway", ("en", "phone")),
    Shot("outbox", "/outbox", ("en", "zh")),
    Shot("trace", "/trace"),
    Shot("trace-of-message", "/trace/order.created/g1/0", ("en", "dark")),
    Shot("analytics", "/analytics", ("en", "zh", "dark")),
    Shot("alerts", "/alerts", ("en", "zh", "phone")),
    Shot("alert-rules", "/alerts?tab=rules"),
    Shot("alert-channels", "/alerts?tab=channels"),
    Shot("alert-silences", "/alerts?tab=silences"),
    Shot("provisioning", "/provisioning", ("en", "zh")),
    Shot("audit", "/audit", ("en", "dark")),
    Shot("jobs", "/jobs", ("en", "zh")),
    Shot("users", "/users", ("en", "phone")),
    Shot("user", "/users/1"),
    Shot("teams", "/teams"),
    Shot("team", "/teams/orders"),
    Shot("tokens", "/tokens"),
    Shot("account", "/account", ("en", "zh", "phone")),
)
"""Every page. A new one is added here."""

DOCS = PROJECT / "docs/images"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Write every page of the console as a picture.")
    parser.add_argument("--to", type=Path, default=PROJECT / "screenshots", help="the folder; default: screenshots")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some pages: {', '.join(shot.name for shot in SHOTS)}"
    )
    parser.add_argument(
        "--all", action="store_true", help="every page in both languages, light and dark, on both screens"
    )
    parser.add_argument("--axe", action="store_true", help="check each page with axe, as it is in the picture")
    parser.add_argument("--docs", action="store_true", help="renew the pictures in docs/images")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {shot.name for shot in SHOTS}
    if unknown:
        parser.error(f"there is no page {', '.join(sorted(unknown))}")
    shots = [shot for shot in SHOTS if not arguments.names or shot.name in arguments.names]
    if arguments.all:
        shots = [replace(shot, looks=tuple(LOOKS)) for shot in shots]
    if arguments.docs:
        arguments.to = DOCS
        shown = {path.stem for path in DOCS.glob("*.png")}
        shots = [replace(shot, looks=("docs",)) for shot in shots if arguments.names or shot.name in shown]
    arguments.to.mkdir(parents=True, exist_ok=True)
    wrong = list(_take(shots, arguments.to, with_axe=arguments.axe))
    print("\n".join((f"{arguments.to}: {sum(len(shot.looks) for shot in shots)} pictures", *wrong)))
    return 1 if wrong else 0


def _take(shots: list[Shot], to: Path, *, with_axe: bool) -> Iterator[str]:
    """Write the pictures; yields what went wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="qmq-screenshots-") as folder,
        System(Path(folder), **WHOLE) as system,
        chromium() as browser,
        demo(system, DOCS_MESSAGES if any("docs" in shot.looks for shot in shots) else 0) as password,
    ):
        for name, look in {**LOOKS, "docs": DOCS_LOOK}.items():
            shown = [shot for shot in shots if name in shot.looks]
            # The pages of one look share a visit: signing in is limited to so many times a minute.
            with closing(visit(browser, system.url, look)) as one:
                for shot in sorted(shown, key=lambda shot: not shot.is_public):
                    if not shot.is_public and not one.is_signed_in:
                        one.sign_in("demo", password)
                    is_docs = name == "docs"
                    picture = to / (f"{shot.name}.png" if is_docs else f"{shot.name}.{name}.png")
                    for line in _shoot(one, shot, picture, full_page=not is_docs, with_axe=with_axe):
                        yield f"{picture.name}: {line}"
                for line in one.problems():
                    yield f"{name}: {line}"


def _shoot(one: Visit, shot: Shot, to: Path, *, full_page: bool, with_axe: bool) -> list[str]:
    problems = []
    try:
        show(one, shot.path)
    except (AssertionError, Error) as error:
        problems.append(str(error).splitlines()[0])
    one.page.screenshot(path=to, full_page=full_page, animations="disabled")
    if with_axe:
        try:
            one.axe_clean()
        except AssertionError as error:
            problems.append(str(error))
    shown = one.page.locator("[data-problem], [data-page=not-found]").all_inner_texts()
    return [*problems, *(" ".join(text.split()) for text in shown)]


def show(one: Visit, path: str) -> None:
    """Open a page and wait until its data are there."""
    page = one.open(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=SHOW_SECONDS * 1000)
    page.wait_for_load_state("networkidle")
    loading = page.locator(".mantine-Loader-root, .mantine-Skeleton-root[data-visible]")
    expect(loading).to_have_count(0, timeout=SHOW_SECONDS * 1000)


@contextmanager
def demo(system: System, messages: int = 0) -> Iterator[str]:
    """Start a system with the demo at work in it; yields the password of its administrator `demo` when the data are loaded and
    this number of messages was sent since."""
    system.start()
    path = system.folder / "demo.out"
    with path.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.shop", "--console", system.url, "--rate", RATE],
            env={**os.environ, **system.environment, "PYTHONUNBUFFERED": "1"}, cwd=PROJECT, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def loaded() -> bool:
        output = path.read_text()
        assert process.poll() is None, f"the demo ended with {process.returncode}:\n{output}"
        sent = [int(count.replace(",", "")) for count in re.findall(r"^([\d,]+) sent, ", output, re.MULTILINE)]
        return bool(sent) and sent[-1] - sent[0] >= messages

    try:
        eventually(loaded, what="the demo is loaded")
        passwords = Path(system.environment["QMQ_DATA_DIR"], PASSWORDS).read_text()
        yield dict(line.split() for line in passwords.splitlines())["demo"]
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
