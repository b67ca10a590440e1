"""Which keep decisions of an automated search would survive a replication (`vrm audit keeps`)."""
