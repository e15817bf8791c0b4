"""The workspace holds together: packages do not know each other, pins agree and resolve, commands exist."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

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


def default_dependencies(root: Path) -> list[str]:
    environments = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["envs"]
    return list(environments["default"]["dependencies"])


def test_environments_pin_what_the_packages_accept(root: Path) -> None:
    pins = {Requirement(text).name: Requirement(text) for text in default_dependencies(root) if "==" in text}
    assert {"torch", "triton"} <= set(pins)
    for path in root.glob("packages/*/pyproject.toml"):
        for text in tomllib.loads(path.read_text())["project"]["dependencies"]:
            wanted = Requirement(text)
            if wanted.name in pins:
                version = next(iter(pins[wanted.name].specifier)).version
                assert version in wanted.specifier, f"{path}: {wanted} excludes the pin {version}"


def test_environments_have_the_scripts_that_the_documentation_names(root: Path) -> None:
    environments = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["envs"]
    assert {"cli", "test", "lint", "types", "docs", "bench"} <= set(environments["default"]["scripts"])
    assert environments["rocm"]["system-packages"] is True
    assert {"cli", "test"} <= set(environments["rocm"]["scripts"])
    assert not any(text.startswith(("torch", "triton")) for text in environments["rocm"]["dependencies"])
    assert not any(text.startswith("torch") for text in environments["triton"]["dependencies"])


def resolve(requirements: list[str], *options: str) -> dict[str, dict[str, Any]]:
    """Metadata by name of what pip would install here from PyPI alone."""
    # Without find-links and extra indexes: what is asked is what a newcomer's pip would see.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PIP_") or key == "PIP_CERT"}
    environment["PIP_CONFIG_FILE"] = os.devnull
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", "--ignore-installed"]
    command += ["--only-binary", ":all:", *options, *requirements]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return {item["metadata"]["name"]: item["metadata"] for item in json.loads(run.stdout)["install"]}


@pytest.mark.network
def test_pins_are_the_pair_that_pypi_resolves(root: Path) -> None:
    """The pinned torch exists and asks for the pinned Triton; its CUDA libraries are not looked at."""
    pins = [text for text in default_dependencies(root) if "==" in text]
    found = resolve(pins, "--no-deps")
    assert sorted(f"{name}=={item['version']}" for name, item in found.items()) == sorted(pins)
    wanted = [Requirement(text) for text in found["torch"]["requires_dist"]]
    (triton,) = [item for item in wanted if item.name == "triton"]
    assert triton.marker is None or triton.marker.evaluate({"platform_system": "Linux"})
    assert found["triton"]["version"] in triton.specifier


@pytest.mark.network
def test_everything_else_resolves_beside_the_pinned_triton(root: Path) -> None:
    wanted = {text for text in default_dependencies(root) if not text.startswith("torch")}
    for path in root.glob("packages/*/pyproject.toml"):
        wanted |= set(tomllib.loads(path.read_text())["project"]["dependencies"])
    outside = sorted(text for text in wanted if not text.startswith(("torch", "wavecast-")))
    assert "triton" in resolve(outside)
