"""Workspace claims: facts about a code base that predicates check (spec 004; docs/claims.md).

- `board`: the claims of a workspace with where they stand.
- `guards`: what must hold inside the Ledger transaction.

Nothing here reads or writes evidence, rules or snapshots, and none of those reads anything from here.
"""
