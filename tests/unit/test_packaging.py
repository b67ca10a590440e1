"""The folders have common names: these tests see that nothing else of that name is ever imported, or installed."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "evaluation", "experiments", "importers", "memory", "policies", "records", "store", "vrm")
OURS = "verified-research-memory"
LINES = 400


def distribution_name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", text, maxsplit=1)[0]).lower()


@pytest.mark.parametrize("name", PACKAGES)
def test_package_comes_from_this_project(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / name / "__init__.py"


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_has_the_name(name: str) -> None:
    owners = {distribution_name(owner) for owner in importlib.metadata.packages_distributions().get(name, [])}
    assert owners <= {OURS}, f"a distribution that brings `{name}` is installed; one of the two would win by chance"


def test_the_same_project_from_another_folder(tmp_path: Path) -> None:
    try:
        importlib.metadata.distribution(OURS)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the project is not installed in this environment")
    program = f"import importlib; print([importlib.import_module(n).__file__ for n in {PACKAGES!r}])"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([str(ROOT / name / "__init__.py") for name in PACKAGES])


def test_every_top_level_package_is_declared() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert found == set(PACKAGES)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {pattern.rstrip("*") for pattern in settings["tool"]["setuptools"]["packages"]["find"]["include"]} == found
    assert set(settings["tool"]["importlinter"]["root_packages"]) == found


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_every_requirement_is_pinned_to_a_version_that_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {*settings["dependencies"]}.union(*settings["optional-dependencies"].values())
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {distribution_name(text) for text in wanted} <= {distribution_name(name) for name in pins}
    installed = {distribution_name(each.name): each.version for each in importlib.metadata.distributions()}
    pinned = {distribution_name(name): version for name, version in pins.items()}
    # A local build ("+cpu") satisfies the pin, as it does for pip; other platforms may need fewer packages.
    met = {name: installed[name].split("+")[0] for name in pinned.keys() & installed.keys()}
    assert met == {name: pinned[name] for name in met}


def test_no_module_is_too_long() -> None:
    modules = [path for name in (*PACKAGES, "tests") for path in (ROOT / name).rglob("*.py")]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > LINES} == {}


def test_scripts_can_be_run_from_anywhere() -> None:
    for name in ("scripts/setup", "scripts/run", "scripts/test", ".ci/run"):
        path = ROOT / name
        assert path.stat().st_mode & 0o111, name
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "#!/usr/bin/env bash"
        assert "set -euo pipefail" in lines
        subprocess.run(["bash", "-n", str(path)], check=True)  # noqa: S607


def test_cluster_file_satisfies_ray() -> None:
    # Ray's own check of a cluster file: its defaults, then its schema.
    import yaml  # noqa: PLC0415 - the other tests of this file do not need ray
    from ray.autoscaler._private.util import prepare_config, validate_config  # noqa: PLC0415

    config = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
    provider = config["provider"]
    assert config["min_workers"] == config["max_workers"] == len(provider["worker_ips"])
    prepared = prepare_config(config)
    validate_config(prepared)
    assert prepared["available_node_types"], "Ray made node types of it"
