"""A revision of the Ledger that does not exist: what a next one may need, on top of whatever the last one is.

It adds a child table that is filled from payloads, a table of a new kind, and columns; it widens a CHECK, drops an
index and a uniqueness, and gives a table another primary key.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from store.install import Definition
from store.migrations.chain import LEDGER, Chain

_MODULE = '''"""Files become rows, roots a column, and notes a kind."""

revision = "{revision}"
down_revision = "{before}"
definition_digest = "{digest}"


def upgrade(steps):
    steps.run("""
        CREATE TABLE ledger.observation_files (
            parent_id TEXT NOT NULL, ordinal BIGINT NOT NULL, namespace TEXT NOT NULL,
            sha256 TEXT NOT NULL, size_bytes BIGINT NOT NULL,
            PRIMARY KEY (parent_id, ordinal),
            FOREIGN KEY(namespace, parent_id) REFERENCES ledger.observations (namespace, id)
        );
        CREATE TABLE ledger.field_notes (
            id TEXT NOT NULL, namespace TEXT NOT NULL, position BIGINT NOT NULL, attempt_id TEXT NOT NULL,
            payload TEXT NOT NULL, PRIMARY KEY (id, namespace),
            FOREIGN KEY(namespace, attempt_id) REFERENCES ledger.attempts (namespace, id)
        );
    """)
    steps.append_only("observation_files", "field_notes")
    steps.fill_child("observations", "artifacts", "observation_files", ("sha256", "size_bytes"))
    steps.add_column("attempts", "dataset_root", "text", "payload::jsonb ->> 'dataset_root'")
    steps.add_column("observations", "exit_code", "bigint", "payload::jsonb ->> 'exit_code'", nullable=True)
    steps.replace_check("attempts", "corpus", "corpus IN ('development', 'evaluation', 'audit')")
    steps.drop_index("attempts_by_seed")
    steps.run("CREATE INDEX attempts_by_dataset_root ON ledger.attempts (namespace, dataset_root)")
    with steps.without_references("hypotheses"):
        steps.replace_primary_key("hypotheses", ("namespace", "id"))
    steps.drop_unique("recall_outcome_attempt_links", "outcome_id")
{more}'''


def next_definition() -> Definition:
    """Return the Ledger's definition as it would be with that revision."""
    present = LEDGER.definition
    # A copy that keeps the order of constraints: the server numbers those without a name in that order.
    metadata: sa.MetaData = pickle.loads(pickle.dumps(present.metadata))  # noqa: S301  # our own bytes
    links = metadata.tables["ledger.recall_outcome_attempt_links"]
    links.constraints -= {each for each in links.constraints if isinstance(each, sa.UniqueConstraint)}
    hypotheses = metadata.tables["ledger.hypotheses"]
    hypotheses.c.id.primary_key = hypotheses.c.namespace.primary_key = False
    hypotheses.append_constraint(sa.PrimaryKeyConstraint("namespace", "id"))
    attempts = metadata.tables["ledger.attempts"]
    attempts.append_column(sa.Column("dataset_root", sa.Text, nullable=False))
    attempts.c.corpus.constraints.clear()
    attempts.append_constraint(sa.CheckConstraint("corpus IN ('development', 'evaluation', 'audit')"))
    sa.Index("attempts_by_dataset_root", attempts.c.namespace, attempts.c.dataset_root)
    metadata.tables["ledger.observations"].append_column(sa.Column("exit_code", sa.BigInteger))
    attempts.indexes -= {each for each in attempts.indexes if each.name == "attempts_by_seed"}
    files, notes = _files(metadata), _notes(metadata)
    return replace(
        present,
        revision=str(int(present.revision) + 1),
        metadata=metadata,
        append_only=(*present.append_only, files.name, notes.name),
    )


def _files(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "observation_files",
        metadata,
        sa.Column("parent_id", sa.Text, primary_key=True),
        sa.Column("ordinal", sa.BigInteger, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["namespace", "parent_id"], ["ledger.observations.namespace", "ledger.observations.id"]
        ),
    )


def _notes(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "field_notes",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("attempt_id", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["namespace", "attempt_id"], ["ledger.attempts.namespace", "ledger.attempts.id"]),
    )


def next_chain(folder: Path, more: str = "pass") -> Chain:
    """Write that revision into `folder` and return the Ledger's chain with it; `more` is a last line of its steps."""
    wanted = next_definition()
    text = _MODULE.format(
        revision=wanted.revision,
        before=LEDGER.definition.revision,
        digest=wanted.digest,
        more=f"    {more}\n",
    )
    (folder / "next.py").write_text(text, encoding="utf-8")
    return Chain(wanted, (*LEDGER.folders, folder))
