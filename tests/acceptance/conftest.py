"""The installed product as its user has it: the `vrm` command in a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

VRM = Path(sys.executable).with_name("vrm")
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Product:
    """An installation in a home of its own, and the commands that were left running in it."""

    home: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command."""
        return os.environ | {"VRM_HOME": str(self.home)}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command and return its process; it is ended with the product, if it still runs then."""
        process = subprocess.Popen(
            [VRM, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.running.append(process)
        return process

    def call(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end, check its exit code, and return what it printed."""
        done = subprocess.run(
            [VRM, *arguments], cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command with --json and return its value."""
        return json.loads(self.call(*arguments, "--json", code=code))


def new_product() -> Iterator[Product]:
    """Give a product in a new home, and stop and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="vrm-acc-"))
    folder.chmod(0o711)
    product = Product(folder / "h")
    try:
        yield product
    finally:
        for process in product.running:
            process.kill()
            process.wait()
        product.call("down")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A product that the tests of a module share."""
    yield from new_product()


@pytest.fixture(scope="module")
def first_round(product: Product) -> dict[str, Any]:
    """What `vrm run --size small --json` printed in an empty home."""
    found: dict[str, Any] = product.json("run", "--size", "small")
    return found
