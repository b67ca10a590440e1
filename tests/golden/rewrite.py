"""Write the golden files again: `python -m tests.golden.rewrite`. Every line of its diff is a promise broken."""

from __future__ import annotations

from tests.golden.material import FILES, FOLDER


def rewrite() -> None:
    """Write every file."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
