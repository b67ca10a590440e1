"""Workspace claims: facts about a code base that predicates check (spec 004; docs/claims.md).

- `board`: the claims of a workspace with where they stand.
- `guards`: what must hold inside the Ledger transaction.
- `place`, `contents`, `revision`: files of a workspace, and nothing outside it.
- `predicates`: the predicates of claims, checked.
- `keeping`: claims added and moved, outcomes recorded.
- `retrieving`: claims found for an objective, with the trace of how.
- `learning`: what the shadow policy has learned.

Nothing here reads or writes evidence, rules or snapshots, and none of those reads anything from here.
"""
