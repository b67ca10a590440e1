"""What is decided about lineage memory: pure, and told by a versioned policy (spec 003; docs/lineage.md).

- `policy`: the policy file, the gate, and the declared metric of a tree.
- `consolidation`: from a node's report to the entries that are remembered of it.
"""
