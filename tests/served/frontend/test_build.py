"""A build is made when something changed, once, whole, and never by half; npm is played by a script."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import brotli
import pytest

from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually
from tools.frontend import GENERATED, BuildFailed, Frontend, main
from tools.node import Node, NodeMissing

NPM = """#!/bin/sh
echo "$*" >> ../npm.log
case "$1 $2" in
"ci ")
  rm -rf node_modules && mkdir node_modules ;;
"run build")
  while [ -e ../hold ]; do sleep 0.02; done
  if [ -e ../fail ]; then seq 100; echo "src/main.ts: a mistake" >&2; exit 3; fi
  mkdir "$5/assets" "$5/.vite"
  cp index.html "$5/index.html"
  cp src/main.ts "$5/assets/main-Ab12Cd34.js"
  echo '{}' > "$5/.vite/manifest.json"
  printf 'GIF89a' > "$5/assets/dot-Ab12Cd34.gif" ;;
esac
"""
SCRIPT = """
import sys
from pathlib import Path
from tools.frontend import Frontend
from tools.node import Node
project = Path(sys.argv[1])
node = Node("v22.12.0", project / "bin/node", (str(project / "bin/npm"),))
Frontend(project, lambda: node, lambda text: print(text, flush=True)).build()
"""


class Project:
    """A project with a small front end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        for name, text in {
            "api/openapi.yaml": "openapi: 3.0.3\n",
            "bin/npm": NPM,
            "console/__init__.py": "",
            "frontend/.npmrc": "",
            "frontend/index.html": "<!doctype html>",
            "frontend/package-lock.json": "{}",
            "frontend/package.json": "{}",
            "frontend/src/main.ts": "console.log(1);\n" * 100,
        }.items():
            self.write(name, text)
        (folder / "bin/npm").chmod(0o755)
        self.frontend = Frontend(folder, self.node, self.said.append)
        self.built = folder / "console/dist"

    def node(self) -> Node:
        return Node("v22.12.0", self.folder / "bin/node", (str(self.folder / "bin/npm"),))

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ran(self, what: str) -> int:
        """How often npm was called so."""
        log = self.folder / "npm.log"
        return sum(line.startswith(what) for line in log.read_text().splitlines()) if log.exists() else 0

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        """Build in a process of its own, which says things to a file."""
        with open(self.folder / name, "wb") as output:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, str(self.folder)], cwd=PROJECT, stdout=output)

    def text(self, *names: str) -> str:
        """What processes have said."""
        return "".join((self.folder / name).read_text() for name in names)

    def rests(self) -> list[Path]:
        return list((self.folder / "console").glob(".dist-*"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_build_is_made_once(project: Project) -> None:
    assert project.frontend.build()
    assert (project.built / "index.html").read_text() == "<!doctype html>"
    assert project.said[:2] == ["front end: installing packages with node v22.12.0", "front end: building"]
    assert project.said[2].startswith("front end: built in ")
    assert not project.frontend.build()
    assert (project.ran("ci"), project.ran("run build")) == (1, 1)
    assert len(project.said) == 3
    assert project.built.stat().st_mode & 0o777 == 0o755, "other users than the one who builds may serve it"
    assert project.rests() == []


def test_a_build_takes_its_place_when_all_of_it_is_on_disk(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        sync(descriptor)
        steps.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def renamed(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    assert project.frontend.build()
    before, after = steps[: steps.index("rename")], steps[-1]
    folder = before[-1]
    assert {Path(path).relative_to(folder) for path in before} == {
        path.relative_to(project.built) for path in (*project.built.rglob("*"), project.built)
    }
    assert after == str(project.built.parent)


@pytest.mark.parametrize(
    "name",
    ["frontend/src/main.ts", "frontend/src/new.ts", "frontend/index.html", "frontend/vite.config.ts", "api/openapi.yaml"],
)  # fmt: skip
def test_what_it_is_made_of_makes_another(project: Project, name: str) -> None:
    project.frontend.build()
    project.write(name, "changed")
    assert project.frontend.build()
    assert (project.ran("ci"), project.ran("run build")) == (1, 2), "packages stay"


def test_a_file_that_moves_or_goes_makes_another(project: Project) -> None:
    project.write("frontend/src/other.ts", "same")
    project.frontend.build()
    (project.folder / "frontend/src/other.ts").rename(project.folder / "frontend/src/moved.ts")
    assert project.frontend.build()
    (project.folder / "frontend/src/moved.ts").unlink()
    assert project.frontend.build()


def test_generated_types_make_none(project: Project) -> None:
    project.frontend.build()
    project.write(f"frontend/{GENERATED}", "types")
    assert not project.frontend.build()


def test_what_tools_leave_makes_none(project: Project) -> None:
    project.frontend.build()
    for name in ("node_modules/x/index.js", "dist/index.html", "coverage/index.html"):
        project.write(f"frontend/{name}", "made")
    assert not project.frontend.build()


def test_another_lock_file_installs_anew(project: Project) -> None:
    project.frontend.build()
    project.write("frontend/package-lock.json", '{"lockfileVersion": 3}')
    assert project.frontend.build()
    assert project.ran("ci") == 2
    # As after an `npm ci` by hand that was cut off: the stamp is gone with what was installed.
    (project.folder / "frontend/node_modules/.stamp").unlink()
    project.frontend.install()
    assert project.ran("ci") == 3


def test_files_are_compressed_when_they_are_built(project: Project) -> None:
    project.frontend.build()
    file = project.built / "assets/main-Ab12Cd34.js"
    assert gzip.decompress(Path(f"{file}.gz").read_bytes()) == file.read_bytes()
    assert brotli.decompress(Path(f"{file}.br").read_bytes()) == file.read_bytes()
    names = {path.name for path in project.built.rglob("*")}
    assert not names & {"index.html.gz", "manifest.json.gz", "dot-Ab12Cd34.gif.gz"}, "the page gets its nonce first"


def test_a_failed_build_says_why_and_leaves_the_last_one(project: Project) -> None:
    project.frontend.build()
    project.write("frontend/src/main.ts", "changed")
    project.write("fail", "")
    with pytest.raises(BuildFailed) as failed:
        project.frontend.build()
    lines = str(failed.value).splitlines()
    assert lines[0].startswith("`npm run build -- --outDir ")
    assert lines[0].endswith("ended with code 3:")
    assert (lines[1], lines[-1], len(lines)) == ("1", "src/main.ts: a mistake", 42)
    assert (project.built / "assets/main-Ab12Cd34.js").read_text().startswith("console.log")
    assert project.rests() == []
    (project.folder / "fail").unlink()
    assert project.frontend.build(), "what failed is tried again"


def test_a_build_that_takes_too_long_is_ended(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.frontend.BUILD_SECONDS", 0.2)
    project.write("hold", "")
    with pytest.raises(BuildFailed, match=r"did not end in 0\.2 s"):
        project.frontend.build()
    assert project.rests() == []
    assert not project.built.exists()


def test_a_build_without_a_page_is_none(project: Project) -> None:
    (project.folder / "bin/npm").write_text("#!/bin/sh\nmkdir -p node_modules\n")
    with pytest.raises(BuildFailed, match=r"made no index\.html"):
        project.frontend.build()
    assert not project.built.exists()


WAITING = "front end: waiting for another build\n"


def test_two_at_once_build_once(project: Project) -> None:
    project.write("hold", "")
    processes = [project.start("first"), project.start("second")]
    try:
        eventually(lambda: WAITING in project.text("first", "second"), what="one builds, the other waits")
        (project.folder / "hold").unlink()
        assert [process.wait(60) for process in processes] == [0, 0]
    finally:
        (project.folder / "hold").unlink(missing_ok=True)
        for process in processes:
            process.kill()
            process.wait()
    assert project.ran("run build") == 1
    assert project.text("first", "second").count("built in") == 1
    assert not project.frontend.build()


def test_whoever_is_killed_leaves_the_lock_to_his_npm_and_no_half_build(project: Project) -> None:
    project.write("hold", "")
    processes = [project.start("first")]
    try:
        eventually(lambda: project.ran("run build") == 1, what="it builds")
        assert project.rests(), "it grows elsewhere"
        assert not project.built.exists()
        processes[0].kill()
        processes[0].wait(60)
        processes.append(project.start("second"))
        eventually(lambda: project.text("second") == WAITING, what="npm of the first is still there, and might write")
        (project.folder / "hold").unlink()
        assert processes[1].wait(60) == 0
    finally:
        (project.folder / "hold").unlink(missing_ok=True)
        for process in processes:
            process.kill()
            process.wait()
    assert project.ran("run build") == 2
    assert (project.built / "assets/main-Ab12Cd34.js.gz").is_file()
    assert project.rests() == []
    assert not project.frontend.build()


def test_scripts_run_until_one_fails(project: Project) -> None:
    (project.folder / "bin/npm").write_text(
        NPM.replace("esac", '"run --silent") if [ "$3" = lint ]; then exit 4; fi ;;\nesac')
    )
    assert project.frontend.run(["typecheck", "test"]) == 0
    assert project.frontend.run(["typecheck", "lint", "test"]) == 4
    assert project.ran("run --silent test") == 1
    assert project.ran("ci") == 1


def test_the_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(_: Frontend) -> bool:
        raise NodeMissing("no node here")

    monkeypatch.setattr(Frontend, "build", missing)
    assert main(["build"]) == 1
    assert capsys.readouterr().err == "front end: no node here\n"
