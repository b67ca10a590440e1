"""The Decision-Point Retriever: one request to one complete proposal, without a write to the Ledger (spec 8.2).

Stages, in this order:

    1 form and identity    2 retention at the current frontier    3 the loaded input, foreign and private members
    4 hard filters         5 three candidate lists, fused         6, 7 features, rank, thresholds, diversity
    8 cards within the exact token budget                         9 an explicit nothing where nothing is left

Rules kept here:

- what stages 1 to 3 refuse is blocked, with its proof; a search that finds nothing is `empty`; an embedder that fails
  is `degraded` where the profile allows it, an error where it does not. None is told as another (VRM-R10, R11);
- given the query vector, the same Recall Input and request give the same bytes; the vector is an artifact, and its
  digest is part of the context;
- section and vector are published for a decision that the Ledger holds, and for no other: whoever only asks leaves no
  copy of what was shown;
- a source is read by id after it was chosen, and must have the payload digest that the index holds (VRM-R06);
- each kind of source has its own lists, for ranks of different indexes do not compare; the ranker joins what they give;
- the retention check is repeated at every request: an input that was loaded before a denial is denied from then on;
- a Recall Input is answered under the policy that it pins, if the retriever knows it: policies are superseded, inputs
  are not, and a context that was made under an earlier policy can be made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from memory.index.embedding import Embedder, require_semantic
from memory.index.framing import Buffer
from memory.recall.candidates import Gathered, find
from memory.recall.context import Admitted, Recall, Searched, compose_recall
from memory.recall.document import query_text
from memory.recall.loaded import (
    Denials,
    LoadedInput,
    ReadableLedger,
    UnusableInput,
    load_input,
    retention_check,
)
from memory.recall.sources import Sources, is_cited
from memory.recall.validation import (
    blocked,
    check_embedder,
    check_form,
    check_identity,
    check_input,
    check_lanes,
    check_policy,
)
from memory.retention import denied_at
from memory.trace.watching import recalling
from policies.episodes import Episode
from policies.hard_filters import FilterQuestion, hard_filter
from policies.ranker import Candidate, Ranking, Source, rank
from policies.rendering import RENDERERS
from policies.retrieval_policy import Fallback, RequiredFilter, RetrievalPolicy, RetrievalProfile
from records.decisions import (
    BlockedEvidence,
    BlockedProposal,
    CorruptInputEvidence,
    DecisionIntent,
    MismatchEvidence,
    RecallRequest,
    RetentionEvidence,
)
from records.errors import InvalidInputError, UnavailableError
from records.ids import MemoryId, RecallInputId
from records.snapshots import RecallInput
from records.values import Disposition, ReasonCount, SourceKind
from store.artifacts import ArtifactStore
from store.ledger.port import records, standing

Vector = NDArray[np.float32]
_RELEASE: Final = re.compile(r"@[^+]*")


class TokenCounter(Protocol):
    """The pinned tokenizer."""

    @property
    def id(self) -> str:
        """Return its identity: encoding, release, hash of its ranks."""

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""


def tokenizer_name(tokenizer_id: str) -> str:
    """Return what decides the counts of a tokenizer: its encoding and ranks, whichever release reads them."""
    return _RELEASE.sub("", tokenizer_id)


def filter_question(intent: DecisionIntent, request: RecallRequest, policy: RetrievalPolicy) -> FilterQuestion:
    """Return what every row is held against for a request, under the profile that the policy has for it."""
    profile = policy.require_profile(request.decision_point)
    return FilterQuestion(
        namespace=intent.namespace,
        scope=request.scope,
        metric=request.metric,
        points=frozenset(profile.points),
        catalog_digest=intent.catalog_digest,
        prior_config=request.prior_config,
        allowed_actions=request.allowed_actions,
        dispositions=frozenset(profile.dispositions),
        actions=frozenset(profile.actions),
        private_visibilities=frozenset(policy.private_visibilities),
        filters=frozenset(each for each in RequiredFilter if profile.requires(each)),
        own=(intent.run_id, intent.arm, intent.pair),
        tools={each.tool: each.version for each in request.tools or ()},
        situation=request.situation,
        failure_signature=request.failure_signature,
    )


class DecisionPointRetriever:
    """Answers requests against loaded Recall Inputs, under one Retrieval Policy."""

    def __init__(
        self,
        ledger: ReadableLedger,
        artifacts: ArtifactStore,
        embedder: Embedder,
        tokenizer: TokenCounter,
        policy: RetrievalPolicy,
        *,
        also: Iterable[RetrievalPolicy] = (),
        denials: Denials = denied_at,
        test_index: bool = False,
    ) -> None:
        """Join the stores with embedder, tokenizer and policy.

        Args:
            ledger: read access to the Ledger.
            artifacts: where indexes are, and where query vectors and sections go.
            embedder: turns a request into a vector.
            tokenizer: measures the rendered section.
            policy: what may be recalled, how it is ranked and shown; a request without an input is held to this one.
            also: policies under which Recall Inputs that pin them are answered besides.
            denials: what retention denies now.
            test_index: allow vectors without meaning; for tests only.

        Raises:
            InvalidInputError: the embedder has no meaning, or policy, renderer and tokenizer do not fit.
        """
        if not test_index:
            with suppress(UnavailableError):  # weights that are missing are a matter of fallback, at the request
                require_semantic(embedder.id)
        self._policies = {each.identity.digest: each for each in (*also, policy)}
        for each in self._policies.values():
            _require_renderer(each, tokenizer_name(tokenizer.id))
        self._ledger, self._artifacts = ledger, artifacts
        self._embedder, self._tokenizer, self._policy = embedder, tokenizer, policy
        self._denials = denials

    def load(self, recall_input_id: RecallInputId, data: Buffer | None = None) -> LoadedInput | UnusableInput:
        """Read a Recall Input and verify every digest; `data` is its index artifact, if it is in memory already.

        Raises:
            UnavailableError: a store cannot be reached.
        """
        kinds = frozenset[SourceKind]().union(*(policy.kinds for policy in self._policies.values()))
        return load_input(self._ledger, self._artifacts, recall_input_id, denials=self._denials, data=data, kinds=kinds)

    @recalling
    def propose(
        self,
        intent: DecisionIntent,
        request: RecallRequest,
        loaded: LoadedInput | UnusableInput,
        *,
        now: str,
        vector_digest: str | None = None,
    ) -> Recall | BlockedProposal:
        """Return the complete context proposal of a request, or the proof that blocks it.

        Args:
            intent: the decision, as admitted.
            request: what is asked.
            loaded: what `load` returned for the request's Recall Input.
            now: the time of the context, as a record timestamp; no decision depends on it.
            vector_digest: the query vector of an earlier answer, to be used again instead of the embedder.

        Raises:
            UnavailableError: a store cannot be reached, or the embedder failed and the profile allows no fallback.
        """
        policy = self._pinned(loaded.recall_input)
        admitted = self._admit(intent, request, loaded, policy, replay=vector_digest is not None)
        if not isinstance(admitted, Admitted):
            return blocked(intent, request, policy, loaded.recall_input, admitted)
        sources = Sources(self._ledger, admitted.loaded)
        searched = self._search(admitted, sources, vector_digest)
        proved = sources.of(searched.lanes)
        if isinstance(proved, CorruptInputEvidence):
            return blocked(intent, request, policy, loaded.recall_input, proved)
        ranking = _rank(searched.lanes, proved, admitted)
        recall = compose_recall(admitted, searched, ranking, count=self._tokenizer.count, now=now)
        if admitted.registered:
            vector = () if searched.vector is None else (searched.vector,)
            self._artifacts.publish_many([*vector, recall.rendered.encode()])
        return recall

    def _pinned(self, recall_input: RecallInput | None) -> RetrievalPolicy:
        """Return the policy of a Recall Input, or the retriever's own where it is none that is known here."""
        pinned = None if recall_input is None else recall_input.retrieval_policy.digest
        return self._policies.get(pinned or "", self._policy)

    def _admit(
        self,
        intent: DecisionIntent,
        request: RecallRequest,
        loaded: LoadedInput | UnusableInput,
        policy: RetrievalPolicy,
        *,
        replay: bool,
    ) -> Admitted | BlockedEvidence:
        """Carry out stages 1 to 3."""
        refusal: BlockedEvidence | None = check_form(intent, request, policy)
        if refusal is not None:
            return refusal
        with self._ledger.reading() as reader:
            stored, head = reader.both(records([intent.contract_view_id, intent.id]), standing(intent.namespace))
            view = check_identity(stored, intent, request)
            if isinstance(view, MismatchEvidence):
                return view
            read = loaded.recall_input
            refusal = None if read is None else check_input(intent, request, read) or check_policy(read, policy)
            if refusal is not None:
                return refusal
            if isinstance(loaded, UnusableInput):
                return loaded.evidence
            check = retention_check(reader, head, loaded.sources, self._denials)
        if check.blocked:
            return RetentionEvidence(check=check)
        return (
            check_lanes(loaded, intent, policy.private_visibilities)
            or (None if replay else self._other_embedder(loaded))
            or Admitted(intent, request, loaded, policy, check, view.equivalence_margin, str(intent.id) in stored)
        )

    def _other_embedder(self, loaded: LoadedInput) -> MismatchEvidence | None:
        with suppress(UnavailableError):  # an embedder that cannot even say who it is fails again when it is used
            indexed = {index.search.identity.embedder_id for index in loaded.lanes.values()}
            other = next((each for each in sorted(indexed) if each != self._embedder.id), None)
            return None if other is None else check_embedder(other, self._embedder.id)
        return None

    def _search(self, admitted: Admitted, sources: Sources, vector_digest: str | None) -> Searched:
        """Carry out stages 4 and 5, for each kind of source that the profile may show.

        The vector is waited for last: what words and structure find is searched and read while the model works.
        """
        profile, text = admitted.profile, query_text(admitted.request)
        question = filter_question(admitted.intent, admitted.request, admitted.policy)
        indexes = {kind: index for kind, index in admitted.loaded.lanes.items() if kind in profile.kinds}
        filtered = {kind: hard_filter(index.columns, question) for kind, index in indexes.items()}
        eligible = any(each.rows.size for each in filtered.values())
        found = {
            kind: find(index, filtered[kind].rows, text, profile.candidate_limit) for kind, index in indexes.items()
        }
        sources.read({kind: each.ids for kind, each in found.items()})
        vector = self._vector(text, profile, vector_digest) if eligible else None
        gathered = {kind: each.gather(vector, admitted.policy.fusion) for kind, each in found.items()}
        data = None if vector is None else vector.astype("<f4").tobytes()
        refused = {kind: each.refused for kind, each in filtered.items()}
        return Searched(gathered, refused, data, eligible, eligible and vector is None)

    def _vector(self, text: str, profile: RetrievalProfile, digest: str | None) -> Vector | None:
        """Return the query vector, or None where the embedder failed and the profile allows it."""
        if digest is not None:
            return np.frombuffer(self._artifacts.read(digest), dtype="<f4").astype(np.float32)
        try:
            return np.asarray(self._embedder.embed([text], kind="query")[0], dtype=np.float32)
        except UnavailableError:
            if profile.fallback is Fallback.NONE:
                raise
            return None


def _require_renderer(policy: RetrievalPolicy, tokenizer: str) -> None:
    style = policy.rendering
    if style.renderer not in RENDERERS or style.tokenizer != tokenizer:
        wanted = f"The policy is for {style.renderer}, {style.tokenizer}."
        raise InvalidInputError("rendering", f"{', '.join(sorted(RENDERERS))}, {tokenizer}", wanted)


def _rank(
    lanes: Mapping[SourceKind, Gathered], sources: Mapping[tuple[SourceKind, str], Source], admitted: Admitted
) -> Ranking:
    """Carry out stages 6 and 7."""
    found = [
        (sources[kind, hit.id], gathered.relevance(hit), hit.ranks)
        for kind, gathered in lanes.items()
        for hit in gathered.hits
    ]
    cited = admitted.profile.requires(RequiredFilter.CITATIONS)
    candidates = [
        Candidate(record=source, relevance=relevance, ranks=ranks, contested=_is_contested(source, admitted.loaded))
        for source, relevance, ranks in found
        if not cited or is_cited(source)
    ]
    ranking = rank(candidates, admitted.profile, admitted.margin, admitted.request.max_items)
    lost = len(found) - len(candidates)
    return (
        replace(ranking, refused=(ReasonCount(reason="no_citation", count=lost), *ranking.refused)) if lost else ranking
    )


def _is_contested(source: Source, loaded: LoadedInput) -> bool:
    """Tell whether the snapshot that was queried has a source as a contested head; an episode is no head."""
    if isinstance(source, Episode):
        return False
    return loaded.members[MemoryId(source.id)].disposition is Disposition.CONTESTED
