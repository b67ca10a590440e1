"""Lineage memory: what the nodes of a search tree reported, and what is remembered of them (spec 003; docs/lineage.md).

- `files`: files below a folder, read without ever leaving it.
- `writing`: entries appended, by the node that they are about.
- `audit`: whether the files that are named are still what was said.
- `tree`: a search tree as the Ledger holds it at one moment, without what retention denies.
- `retrieval`: what a node's ancestors wrote, found by words and meaning.
- `working_context`: what a node begins with.
- `evidence`: the claims of a lineage, weighed against the files as they are now.
- `context_file`: `verified_context.json`, written, left alone or removed.
- `papers`: the values that the numbers of a paper may rest on.
- `guards`: what must hold inside the Ledger transaction.

Nothing here reads or writes evidence: an entry is no support, however well its files check.
"""
