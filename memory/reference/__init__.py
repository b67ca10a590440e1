"""The Source/Reference Retrieval Module: papers, code, datasets and tools to consult (spec 8.5; docs/reference.md).

- `structure`: the parts of a text by its format.
- `formats`: bytes of a file to the text that is read out of them.
- `pdf`: the text of a PDF, by a process with limits.
- `reading`: a file of the disk, with all that makes it no source.
- `adding`: sources appended with their chunks, their bytes held by artifact references.
- `holding`: the artifact references of a source.
- `catalogue`: which sources a namespace has, and which of them an erasure denies.
- `index`: the search index over their chunks, and its receipt.
- `recording`: the receipt of the index, appended.
- `search`: chunks found, as Reference Cards.
- `context`: the Reference Context of a Research Context, rendered and frozen.
- `guards`: what must hold inside the Ledger transaction.

Nothing here reads or writes evidence, rules or snapshots, and none of those reads anything from here.
"""
