"""The Procedure Adapter: from a step to an action that is allowed here anyway, or to what stands against it (spec 8.4).

Rules kept here:

- it grants nothing and runs nothing: what it gives back are changes of the governing catalog, each of which still goes
  through its own decision, grant, experiment and verification;
- the tools that count are those of the Procedure Policy's allowlist that run here, at the versions that they have now;
- everything that stands against an execution is found before anything of it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memory.procedures.reading import StoredProcedure
from policies.catalog import Change, Config, InterventionCatalog
from policies.procedures.execution import Ground, changes_of, preflight
from policies.procedures.policy import ProcedurePolicy
from records.errors import ProcedureBlockedError


@dataclass(frozen=True, kw_only=True)
class ProcedureAdapter:
    """Maps procedures to one catalog.

    Attributes:
        catalog: the governing allowlist of changes.
        running: the versions of the tools that run here.
        policy: which tools may be asked for what.
    """

    catalog: InterventionCatalog
    running: Mapping[str, str]
    policy: ProcedurePolicy

    def ground(self, found: StoredProcedure, config: Config, observed: Mapping[str, str]) -> Ground:
        """Return where an execution would take place."""
        rule = self.policy.tool(self.catalog.domain)
        allowed = () if rule is None else (rule.tool, rule.runtime)
        return Ground(
            active=found.active,
            tools={name: self.running[name] for name in allowed if name in self.running},
            operations={} if rule is None else {rule.tool: frozenset({rule.operation})},
            catalog=self.catalog,
            config=config,
            observed={**observed, "config_digest": self.catalog.config_digest(config)},
        )

    def changes(self, found: StoredProcedure, ground: Ground) -> tuple[Change, ...]:
        """Return the steps as changes, each from where the one before it leaves.

        Raises:
            ProcedureBlockedError: something stands against it; the first thing is named, and how many there are.
        """
        blocks = preflight(found.record.procedure, ground)
        if blocks:
            first, more = blocks[0], len(blocks) - 1
            remedy = f"Needed is {first.needed}; nothing was run." + (f" {more} more stand against it." if more else "")
            raise ProcedureBlockedError(f"{first.code.value}: {first.about}", first.met, remedy)
        return changes_of(found.record.procedure, ground.catalog, ground.config)
