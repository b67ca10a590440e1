"""The embedded Postgres in parts: its programs, the account it runs as, the process that runs."""
