"""Procedures as they are used: found in the Ledger, mapped to what is allowed here, and accounted for afterwards.

- `reading`: procedures with where they stand, and what became of every execution, from the Ledger alone.
- `adapter`: the Procedure Adapter, which maps a step to an allowlisted action or says what stands against it.
"""
