"""How a store of an earlier revision becomes one of this program's: a chain of revisions for each schema.

A revision is a module in `<schema>/versions`, found by Alembic and not imported. docs/adr/0012 says how the chains
relate to the definitions, and README.md in this folder how to write the next revision.
"""
