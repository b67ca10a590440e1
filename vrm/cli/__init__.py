"""The `vrm` command.

Rules kept here:

- one module per group of commands; a module imports at its top only what `--help` needs, so that help is quick;
- every command takes `--json`; then standard output holds one JSON value and nothing else. Progress and errors for
  people go to standard error;
- an error that a user can act on is one block, or one JSON object, and exit code 2; never a traceback. Exit code 1 is
  kept for a check that found something;
- commands reach the stores through `vrm.cli.connection` alone.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the console script."""
    from vrm.cli.app import app  # noqa: PLC0415  # importing the package must cost nothing

    app(prog_name="vrm")
