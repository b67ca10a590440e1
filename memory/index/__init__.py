"""The derived retrieval index: exact lexical and exact semantic search over one frozen set of documents.

- `embedding`: texts to unit vectors by a real model; the hash embedder of the tests.
- `vectors`: unit vectors to int8 codes, and the exact integer score between them (docs/adr/0040).
- `lexical`: words of a text, BM25 impacts as integers.
- `ranking`: the one rule that orders hits, and the unit of every score.
- `framing`, `packed`: the bytes of an artifact and the texts inside it.
- `artifact`: build an index, load it, search it.
- `fusion`: join ranked lists, by reciprocal rank or by weighted shares of their scores.

Not handled here: which documents are eligible, hard filters, abstention, diversity, budgets.
"""
