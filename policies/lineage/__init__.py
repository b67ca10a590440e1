"""What is decided about lineage memory: pure, and told by a versioned policy (spec 003; docs/lineage.md).

- `policy`: the policy file, the gate, and the declared metric of a tree.
- `consolidation`: from a node's report to the entries that are remembered of it.
- `scope`, `standing`: who may read what, and whether a result was reproduced.
- `grounding`, `best`, `verified`: what grounds a claim, the best node, and what a paper may rest on.
- `rendering`, `working`: the section for a paper's prompt, and what a node begins with.
- `reading_policy`: the policy file of all that reads.
"""
