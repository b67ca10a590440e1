"""Ledgers and published evidence of AI-Researcher, kept as legacy records (docs/adr/0051).

- `layout`: the tables of its schema revisions 1 and 2, as data.
- `identity`: its canonical form and the rules by which its ids were made.
- `rows`: one row against its own columns and id; pure.
- `database`: a ledger file, read whole from a private copy.
- `phase3`: the published phase-3 evidence bundle.
- `reasons`: what keeps a record from being promoted; pure.
- `content`: what both sources become, and the records of it; pure.
- `filing`: appending the records, reading them back, and the receipt.

Rules kept here: a source is read and checked whole before the first record is written; it is never changed, and no
program in it is ever run; nothing depends on when or where it is imported.
"""

from __future__ import annotations

from importers.ai_researcher.content import LegacyContent
from importers.ai_researcher.database import read_ledger
from importers.ai_researcher.filing import Filed, file_content
from importers.ai_researcher.phase3 import Bundle, read_bundle

__all__ = ["Bundle", "Filed", "LegacyContent", "file_content", "read_bundle", "read_ledger"]
