"""Recall: from a Recall Input and one typed request to at most three cards, or an explicit nothing (spec 8.2).

- `document`: the words by which a record is found.
- `memory_index`: the artifact of a Recall Input: search index, filter columns, payload digests.
- `loaded`: a Recall Input read and verified, ready for a thousand requests.
- `validation`: what blocks a request before anything is searched, with its proof.
- `candidates`: the three candidate lists and their fusion.
- `cards`: records to Evidence Cards.
- `retriever`: the stages in their fixed order.

Nothing here writes to the Ledger.
"""
