"""Lineage memory: what the nodes of a search tree reported, and what is remembered of them (spec 003; docs/lineage.md).

- `files`: files below a folder, read without ever leaving it.
- `writing`: entries appended, by the node that they are about.
- `audit`: whether the files that are named are still what was said.
- `guards`: what must hold inside the Ledger transaction.

Nothing here reads or writes evidence: an entry is no support, however well its files check.
"""
