"""The workspace holds together: packages do not know each other, pins agree and resolve, commands exist."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import {package} as package
for module in pkgutil.walk_packages(package.__path__, "{package}."):
    importlib.import_module(module.name)
print(sorted(set(sys.modules) & {{"torch", "matplotlib", "wavecast.kernels", "wavecast.cli"}}))
"""


def modules_of(root: Path, package: str) -> list[Path]:
    return sorted((root / "packages" / package / "src").rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("simulator", ("torch", "wavecast.kernels", "wavecast.cli")),
        ("kernels", ("wavecast.simulator", "wavecast.cli")),
    ],
)
def test_no_package_imports_what_it_must_not_know(root: Path, package: str, forbidden: tuple[str, ...]) -> None:
    files = modules_of(root, package)
    assert files
    wrong = {
        str(path.relative_to(root)): name
        for path in files
        for name in imports_of(path)
        if any(name == word or name.startswith(word + ".") for word in forbidden)
    }
    assert not wrong


def test_importing_the_whole_simulator_imports_no_torch() -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING.format(package="wavecast.simulator")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"


def test_namespace_package_has_no_init(root: Path) -> None:
    assert not list(root.glob("packages/*/src/wavecast/__init__.py"))


def test_environments_pin_what_the_packages_accept(root: Path) -> None:
    from packaging.requirements import Requirement

    environments = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["envs"]
    pins = {Requirement(text).name: Requirement(text) for text in environments["default"]["dependencies"]}
    for path in root.glob("packages/*/pyproject.toml"):
        for text in tomllib.loads(path.read_text())["project"]["dependencies"]:
            wanted = Requirement(text)
            pinned = pins.get(wanted.name)
            if pinned is not None:
                version = next(iter(pinned.specifier)).version
                assert version in wanted.specifier, f"{path}: {wanted} excludes the pin {pinned}"


@pytest.mark.network
def test_pins_resolve_from_pypi(root: Path, tmp_path: Path) -> None:
    """A plain resolve against PyPI finds the pair; only metadata is downloaded."""
    dependencies = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["envs"]["default"][
        "dependencies"
    ]
    pins = [text for text in dependencies if "==" in text]
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("\n".join(pins))
    # Without find-links and extra indexes: what is asked is what a newcomer's pip would see.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PIP_") or key == "PIP_CERT"}
    environment["PIP_CONFIG_FILE"] = os.devnull
    for platform in ("manylinux_2_28_x86_64",):
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--quiet",
            "--report",
            "-",
            "--ignore-installed",
        ]
        command += ["--only-binary", ":all:", "--platform", platform, "--python-version", "3.11"]
        command += ["--target", str(tmp_path / "none"), "--requirement", str(requirements)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert run.returncode == 0, run.stderr
