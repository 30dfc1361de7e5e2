"""`make screenshots`: every page of the console as a picture, with the demo's data, from a system of its own.

python -m tests.support.console.screenshots [--to FOLDER] [--all | --docs] [--minutes N] [--first-screen] [--axe] [NAME ...]

By default each page is shown in the looks that differ most on it; with `--all` in every one. `--docs` renews the pictures of the
documentation in docs/images: what an English desktop shows of a page without scrolling, during and after an incident in an hour
of the demo (`tests.support.console.incident`).

Ends with 1 when a page shows an error, is not there, or something went wrong in it (as
`tests.support.console.browser.Visit` has it); with `--axe` also when axe finds a violation in any picture.
"""

import argparse
import os
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
from tests.support.console.incident import MINUTES, Moment, Schedule
from tests.support.console.small_png import smaller
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import WHOLE, System
from tests.support.waiting import eventually

SHOW_SECONDS = 20.0
"""How long a page may take to show its data."""
RATE = "20"

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
DOCS_LOOK = replace(DESKTOP, timezone="UTC")
ALL = ("en", "zh", "dark", "phone", "phone-zh-dark")


@dataclass(frozen=True, slots=True)
class Shot:
    """A page and how it is looked at."""

    name: str
    path: str
    looks: tuple[str, ...] = ("en",)
    is_public: bool = False
    moment: Moment = Moment.END
    """When it is taken, if the demo has an incident."""
    in_docs: bool = False


SHOTS = (
    Shot("sign-in", "/sign-in", ALL, is_public=True),
    Shot("overview", "/", ALL, moment=Moment.INCIDENT, in_docs=True),
    Shot("subjects", "/subjects", ALL),
    Shot("subject-tree", "/subjects?view=tree&open=order.%20payment.", ALL),
    Shot("subject", "/subjects/order.created", ("en", "zh", "dark", "phone")),
    Shot("subject-messages", "/subjects/order.created?tab=messages", ("en", "zh"), in_docs=True),
    Shot("subject-tail", "/subjects/click.tracked?tab=tail"),
    Shot("subject-groups", "/subjects/order.created?tab=groups"),
    Shot("subject-placement", "/subjects/order.created?tab=placement"),
    Shot("subject-settings", "/subjects/order.created?tab=settings"),
    Shot("groups", "/groups", ALL),
    Shot("group", "/groups/order.created/fraud-check", ("en", "zh", "dark", "phone")),
    Shot("group-behind", "/groups/parcel.moved/tracking", ("en", "dark"), moment=Moment.INCIDENT, in_docs=True),
    Shot("group-recovered", "/groups/parcel.moved/tracking", ("en", "dark"), in_docs=True),
    Shot("clients", "/clients", ALL),
    Shot("brokers", "/brokers", ("en", "zh", "dark", "phone")),
    Shot("broker", "/brokers/g1", ("en", "dark", "phone"), in_docs=True),
    Shot("delayed", "/delayed", ("en", "zh", "dark", "phone"), in_docs=True),
    Shot("dead-letters", "/dead-letters", ("en", "zh")),
    Shot("dead-letters-of-group", "/dead-letters/payment.requested/card-gateway", ("en", "phone"), in_docs=True),
    Shot("outbox", "/outbox", ("en", "zh")),
    Shot("trace", "/trace"),
    Shot("trace-of-message", "/trace/order.created/g1/0", ("en", "dark"), in_docs=True),
    Shot("analytics", "/analytics", ("en", "zh", "dark"), in_docs=True),
    Shot("alerts", "/alerts", ("en", "zh", "phone")),
    Shot("alert-rules", "/alerts?tab=rules"),
    Shot("alert-channels", "/alerts?tab=channels"),
    Shot("alert-silences", "/alerts?tab=silences"),
    Shot("events", "/events", ("en", "zh", "dark", "phone"), in_docs=True),
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
    parser.add_argument(
        "--minutes", type=float, help=f"how long the demo runs, with an incident; default: 0, with --docs {MINUTES:g}"
    )
    parser.add_argument("--first-screen", action="store_true", help="only what is visible without scrolling")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {shot.name for shot in SHOTS}
    if unknown:
        parser.error(f"there is no page {', '.join(sorted(unknown))}")
    shots = [shot for shot in SHOTS if not arguments.names or shot.name in arguments.names]
    if arguments.all:
        shots = [replace(shot, looks=tuple(LOOKS)) for shot in shots]
    if arguments.docs:
        arguments.to = DOCS
        shots = [replace(shot, looks=("docs",)) for shot in shots if shot.in_docs]
    arguments.to.mkdir(parents=True, exist_ok=True)
    minutes = arguments.minutes if arguments.minutes is not None else MINUTES * arguments.docs
    is_whole = not (arguments.docs or arguments.first_screen)
    wrong = list(_take(shots, arguments.to, Schedule(minutes), full_page=is_whole, with_axe=arguments.axe))
    if arguments.docs:
        for shot in shots:
            picture = arguments.to / f"{shot.name}.png"
            picture.write_bytes(smaller(picture.read_bytes()))
    print("\n".join((f"{arguments.to}: {sum(len(shot.looks) for shot in shots)} pictures", *wrong)))
    return 1 if wrong else 0


def _take(shots: list[Shot], to: Path, schedule: Schedule, *, full_page: bool, with_axe: bool) -> Iterator[str]:
    """Write the pictures; yields what went wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="qmq-screenshots-") as folder,
        System(Path(folder), copies=3, delay_copies=3, **WHOLE) as system,
        chromium() as browser,
        demo(system, *schedule.flags) as password,
    ):
        for moment in schedule.moments(system):
            for name, look in {**LOOKS, "docs": DOCS_LOOK}.items():
                taken = [
                    shot for shot in shots if name in shot.looks and (shot.moment is moment or not schedule.minutes)
                ]
                # The pages of one look share a visit: signing in is limited to so many times a minute.
                with closing(visit(browser, system.url, look)) as one:
                    for shot in sorted(taken, key=lambda shot: not shot.is_public):
                        if not shot.is_public and not one.is_signed_in:
                            one.sign_in("demo", password)
                        picture = to / (f"{shot.name}.png" if name == "docs" else f"{shot.name}.{name}.png")
                        for line in _shoot(one, shot, picture, full_page=full_page, with_axe=with_axe):
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
def demo(system: System, *flags: str) -> Iterator[str]:
    """Start a system with the demo at work in it, and yield the password of its administrator `demo` when the data are loaded."""
    system.start()
    path = system.folder / "demo.out"
    with path.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.shop", "--console", system.url, "--rate", RATE, *flags],
            env={**os.environ, **system.environment, "PYTHONUNBUFFERED": "1"}, cwd=PROJECT, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def loaded() -> bool:
        output = path.read_text()
        assert process.poll() is None, f"the demo ended with {process.returncode}:\n{output}"
        return " sent, " in output

    try:
        eventually(loaded, what="the demo is loaded")
        passwords = Path(system.environment["QMQ_DATA_DIR"], PASSWORDS).read_text()
        yield dict(line.split() for line in passwords.splitlines())["demo"]
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
