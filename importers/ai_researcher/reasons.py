"""What keeps a legacy record from being promoted. Pure.

A record rests on the observations of some trials. Without a Trial Provenance row for each of them nothing ties what was
observed to what was executed; without an Intervention row nothing says in typed terms what was changed. A record that
lacks neither still has no scope: it is held back by standing in `legacy_unscoped`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from importers.ai_researcher.rows import LegacyRow, guarded, place_of
from records.legacy import LegacyReason, LegacyTable


class Trials:
    """Which observations the records of one source rest on, and what is known of each."""

    def __init__(self, rows: Iterable[LegacyRow]) -> None:
        """Collect the ties between rows; a tie to a row that is not there leads nowhere.

        Raises:
            InvalidSourceError: a payload is of another shape.
        """
        tied = (LegacyTable.HYPOTHESES, LegacyTable.ATTEMPTS, LegacyTable.EXPERIENCES, LegacyTable.INTERVENTIONS)
        self._by: dict[LegacyTable, dict[str, set[str]]] = {table: {} for table in tied}
        self._sources: dict[str, list[str]] = {}
        self._provenance: dict[str, str] = {}
        self._interventions: set[str] = set()
        for row in rows:
            place = place_of(row.table, row.record_id)
            guarded(place, lambda row=row: self._collect(row.table, row.record_id, row.payload))  # type: ignore[misc]  # the usual way to bind

    def reasons(self, row: LegacyRow) -> tuple[LegacyReason, ...]:
        """Return what keeps a record from being promoted; never empty.

        Raises:
            InvalidSourceError: the payload is of another shape.
        """
        place = place_of(row.table, row.record_id)
        observations = guarded(place, lambda: self._observations(row.table, row.record_id, row.payload))
        found = []
        if not observations or not observations <= self._provenance.keys():
            found.append(LegacyReason.MISSING_PROVENANCE)
        if row.table is not LegacyTable.INTERVENTIONS and not self._all_typed(observations):
            found.append(LegacyReason.MISSING_ACTION)
        return tuple(found) or (LegacyReason.UNSCOPED,)

    def _all_typed(self, observations: set[str]) -> bool:
        return bool(observations) and all(self._provenance.get(each) in self._interventions for each in observations)

    def _collect(self, table: LegacyTable, record_id: str, payload: Mapping[str, Any]) -> None:
        match table:
            case LegacyTable.OBSERVATIONS:
                self._tie(LegacyTable.ATTEMPTS, payload["attempt_id"], record_id)
            case LegacyTable.EXPERIENCES:
                observation = payload["observation"]["observation_id"]
                self._tie(LegacyTable.EXPERIENCES, record_id, observation)
                self._tie(LegacyTable.HYPOTHESES, payload["hypothesis"]["hypothesis_id"], observation)
            case LegacyTable.KNOWLEDGE:
                self._sources[record_id] = payload["source_experience_ids"]
            case LegacyTable.INTERVENTIONS:
                self._interventions.add(record_id)
            case LegacyTable.PROVENANCES:
                self._provenance[payload["observation_id"]] = payload["intervention_id"]
                self._tie(LegacyTable.INTERVENTIONS, payload["intervention_id"], payload["observation_id"])
            case _:
                pass

    def _tie(self, table: LegacyTable, record_id: str, observation_id: str) -> None:
        self._by[table].setdefault(record_id, set()).add(observation_id)

    def _observations(self, table: LegacyTable, record_id: str, payload: Mapping[str, Any]) -> set[str]:
        match table:
            case LegacyTable.HYPOTHESES | LegacyTable.ATTEMPTS | LegacyTable.EXPERIENCES | LegacyTable.INTERVENTIONS:
                return self._by[table].get(record_id, set())
            case LegacyTable.OBSERVATIONS:
                return {record_id}
            case LegacyTable.VERIFICATIONS | LegacyTable.PROVENANCES:
                return {payload["observation_id"]}
            case LegacyTable.PROMOTIONS:
                return self._of_experiences([payload["experience_id"]])
            case LegacyTable.RECALLS:
                known = (self._sources.get(item["knowledge_id"], [""]) for item in payload["items"])
                return self._of_experiences([experience for sources in known for experience in sources])
            case _:
                return self._of_experiences(payload["source_experience_ids"])

    def _of_experiences(self, experience_ids: Iterable[str]) -> set[str]:
        """Return the observations behind experiences; one that is not there is an observation without provenance."""
        return {each for key in experience_ids for each in self._by[LegacyTable.EXPERIENCES].get(key, {""})}
