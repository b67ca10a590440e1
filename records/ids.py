"""The typed id of every noun.

The first block names records of the Ledger, the second what records speak about but the Ledger keeps no row for, the
third what the Runtime owns. The golden vectors of all of them are in tests/golden/ids.json.
"""

from __future__ import annotations

from records.models import Id

# -- records of the Experiment Ledger


class ContractId(Id, noun="evaluation-contract"):
    """An Evaluation Contract."""


class HypothesisId(Id, noun="hypothesis"):
    """A Hypothesis."""


class AttemptId(Id, noun="attempt"):
    """An Experiment Attempt."""


class ObservationId(Id, noun="observation"):
    """An Observation."""


class VerificationId(Id, noun="verification"):
    """A Verification Record."""


class InterventionId(Id, noun="intervention"):
    """An Intervention Record."""


class ProvenanceId(Id, noun="trial-provenance"):
    """A Trial Provenance Record."""


class ExperienceId(Id, noun="experience"):
    """An Experience Record."""


class ReceiptId(Id, noun="distillation-receipt"):
    """An Experience Distillation Receipt."""


class WorkItemId(Id, noun="distillation-work-item"):
    """A Distillation Work Item; also the admission key of its campaign."""


class EnqueueTransactionId(Id, noun="enqueue-transaction"):
    """The sidecar of one enqueue transaction."""


class AssignmentId(Id, noun="distillation-work-assignment"):
    """A Distillation Work Assignment."""


class BatchId(Id, noun="distillation-batch"):
    """A Distillation Batch."""


class ReportId(Id, noun="distillation-report"):
    """A Distillation Report."""


class DispositionId(Id, noun="distillation-work-disposition"):
    """A Distillation Work Disposition."""


class CompletionId(Id, noun="distillation-work-completion"):
    """A Distillation Work Completion."""


class EvidenceSnapshotId(Id, noun="evidence-snapshot"):
    """An Evidence Snapshot."""


class CaptureId(Id, noun="capture-operation"):
    """The receipt of one capture operation."""


class CandidateId(Id, noun="knowledge-candidate"):
    """A Knowledge Candidate."""


class MemoryId(Id, noun="memory-record"):
    """A Knowledge or Procedure Record."""


class EventId(Id, noun="knowledge-lifecycle-event"):
    """A Knowledge Lifecycle Event."""


class RelationId(Id, noun="memory-relation"):
    """A Memory Relation."""


class DecisionId(Id, noun="distillation-decision"):
    """A Distillation Decision."""


class KnowledgeSnapshotId(Id, noun="knowledge-snapshot"):
    """A Knowledge Snapshot."""


class IndexBuildId(Id, noun="memory-index-build"):
    """The build receipt of a derived index."""


class RecallInputId(Id, noun="recall-input-snapshot"):
    """A Recall Input Snapshot."""


class ContractViewId(Id, noun="decision-contract-view"):
    """A sanitised Decision Contract View."""


class IntentId(Id, noun="decision-intent"):
    """A Decision Intent."""


class ContextId(Id, noun="decision-recall-context"):
    """A Recall Context."""


class OutcomeId(Id, noun="recall-decision-outcome"):
    """A Recall Decision Outcome."""


class ConflictId(Id, noun="distillation-commit-conflict"):
    """A Distillation Commit Conflict."""


class ErasureIntentId(Id, noun="retention-erasure-intent"):
    """A Retention Erasure Intent."""


class TombstoneId(Id, noun="memory-retention-tombstone"):
    """A Memory Retention Tombstone."""


class IndexFailureId(Id, noun="memory-index-failure"):
    """The receipt of an index build that failed."""


class NoCommitId(Id, noun="no-commit-receipt"):
    """The journaled proof that an authorized append wrote nothing."""


class AttemptLinkId(Id, noun="outcome-attempt-link"):
    """The later link from an Outcome to the Attempt it led to."""


class LegacyRecordId(Id, noun="legacy-record"):
    """A record of an earlier ledger, kept byte by byte."""


class LegacyImportId(Id, noun="legacy-import"):
    """The receipt of one import of legacy records."""


class ReferenceSourceId(Id, noun="reference-source"):
    """A source to consult: a paper, code, a dataset or a tool's documentation."""


class ReferenceChunksId(Id, noun="reference-chunks"):
    """The chunks that one rule made of a reference source."""


class ReferenceIndexId(Id, noun="reference-index-build"):
    """The build receipt of an index over reference chunks."""


class ReferenceContextId(Id, noun="reference-context"):
    """The Reference Cards of one Research Context."""


class NodeReportId(Id, noun="node-report"):
    """The report of one node of a search tree."""


class LineageEntryId(Id, noun="lineage-entry"):
    """An entry of lineage memory."""


class WorkspaceClaimId(Id, noun="workspace-claim"):
    """A claim about a code base."""


class ClaimEventId(Id, noun="claim-event"):
    """A step of a workspace claim's lifecycle."""


class ClaimTraceId(Id, noun="claim-trace"):
    """What one retrieval of workspace claims did."""


class ClaimReceiptId(Id, noun="claim-receipt"):
    """What an environment found about one trial that a trace informed."""


# -- nouns that records speak about


class TaskScopeId(Id, noun="task-scope"):
    """A public taxonomy node of tasks."""


class EvaluationTaskId(Id, noun="evaluation-task"):
    """One concrete task instance."""


class FamilyId(Id, noun="knowledge-family"):
    """A Knowledge Family."""


class ScopeVariantId(Id, noun="knowledge-scope-variant"):
    """A Knowledge Family under one exact Memory Scope."""


class StratumId(Id, noun="comparison-stratum"):
    """A comparability stratum."""


class SupportUnitId(Id, noun="support-unit"):
    """An independent unit of support."""


class LinkId(Id, noun="memory-evidence-link"):
    """An evidence link of a memory record."""


class CardId(Id, noun="evidence-card"):
    """An Evidence Card."""


class CitationId(Id, noun="recall-citation"):
    """A citation of a card in one context."""


class ReferenceChunkId(Id, noun="reference-chunk"):
    """A chunk of a reference source."""


class ReferenceCardId(Id, noun="reference-card"):
    """A Reference Card."""


# -- what the Runtime owns


class RunId(Id, noun="run"):
    """A Research Run."""


class ActivityId(Id, noun="activity"):
    """A Runtime Activity."""


class HandoffId(Id, noun="enqueue-handoff"):
    """An enqueue handoff."""


class EnqueueAttemptId(Id, noun="enqueue-attempt"):
    """One attempt of an enqueue handoff."""


class ReferenceId(Id, noun="artifact-reference"):
    """An owned reference to artifact bytes."""


class ProfileId(Id, noun="campaign-admission-profile"):
    """A Campaign Admission Profile."""


class ManifestId(Id, noun="distillation-campaign-manifest"):
    """A Distillation Campaign Manifest."""


class AuthorizationId(Id, noun="authorization"):
    """A single-use authorization of one append."""
