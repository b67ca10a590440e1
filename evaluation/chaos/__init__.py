"""The whole protocol on real processes with real faults, in an installation that is thrown away.

- `faults`: what may happen to whom at which point, and the draw of a run's faults;
- `place`: the installation, its processes, and how they are killed, stopped and healed;
- `gates`: how a transaction is held at a point, by locks of the database alone;
- `striker`: stands between the driver and the owners, and lets the faults happen;
- `crews`, `nursery`: who serves, as Ray actors or as plain processes;
- `driver`: takes work through owners that are struck, and recovers;
- `work`: the decisions and the evidence that are driven meanwhile;
- `accounting`: what is due, what is there, and what is lost or doubled;
- `chaos`: a run and its report.
"""
