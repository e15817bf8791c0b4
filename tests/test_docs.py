"""The documentation is true as far as a machine can tell: links lead somewhere, commands exist and run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from wavecast.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
SHELL_WORDS = ("&&", "pip", "git", "cd", ".ci/run")


def commands_of(page: Path) -> list[str]:
    """Lines of the page's console blocks, the part after ``&&`` of a line on its own."""
    lines = [line.split(" # ")[0] for block in CONSOLE.findall(page.read_text()) for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip()]


def anchors_of(page: Path) -> set[str]:
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(page.read_text())
    }


COMMANDS = sorted({command for page in PAGES for command in commands_of(page)})
CLI_COMMANDS = [command for command in COMMANDS if command.startswith("hatch run cli ")]
# A script for a GPU runs where a page runs it: under the `run` verb.
EXAMPLES = [
    path
    for path in sorted(ROOT.glob("docs/examples/*.py"))
    if not any(command.startswith(f"hatch run cli run docs/examples/{path.name}") for command in COMMANDS)
]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_every_page_can_be_found_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        links = [link.partition("#")[0] for link in LINK.findall(page.read_text()) if "://" not in link]
        found = {(page.parent / link).resolve() for link in links if link.endswith(".md")}
        waiting += [target for target in found - seen if target.exists()]
    assert not set(ROOT.glob("docs/**/*.md")) - seen


@pytest.mark.parametrize("command", COMMANDS)
def test_command_exists(command: str) -> None:
    words = shlex.split(command)
    if words[:2] != ["hatch", "run"]:
        assert words[0] in SHELL_WORDS
        return
    if words[2] == "python":
        assert (ROOT / words[3]).exists()
        return
    environment, _, script = words[2].rpartition(":")
    environments = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["envs"]
    assert script in environments[environment or "default"]["scripts"]


def test_reference_has_every_verb() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)[^|]*` \|", page, re.MULTILINE))
    assert listed == {command.callback.__name__ for command in app.registered_commands if command.callback}


def run_python(*words: str, folder: Path) -> None:
    run = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.docs
@pytest.mark.parametrize("command", CLI_COMMANDS)
def test_command_runs(command: str, tmp_path: Path) -> None:
    words = [str(ROOT / word) if word.startswith("docs/") else word for word in shlex.split(command)[3:]]
    if words[0] == "measure":
        # Where there is no GPU, it has to say so; nothing else may be wrong with the command.
        run = subprocess.run(
            [sys.executable, "-m", "wavecast.cli", *words], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0 or (run.returncode == 3 and "torch sees no GPU" in run.stderr), run.stderr
        return
    run_python("-m", "wavecast.cli", *words, folder=tmp_path)


@pytest.mark.docs
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example_runs(example: Path, tmp_path: Path) -> None:
    run_python(str(example), folder=tmp_path)
