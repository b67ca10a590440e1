"""Reports of the nodes of a search tree as records of lineage memory (spec 003; docs/lineage.md).

- `reasons`: why a report is not taken.
- `values`: one value of a report, read strictly.
- `files_named`: the files that a report names: what it changed, and what it left behind.
- `document`: the whole document, in both published shapes, with what was repaired.
- `tree`: where reports stand on the disk, parents before children.
- `record`: a report that was read, as a record.
- `importing`: records appended and consolidated.
- `declaration`: how a search is evaluated, with the labels that no node wrote.
- `evidence`: nodes as trials, or what holds them back.
"""
