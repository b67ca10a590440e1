"""Lineage memory, from Python: what a node's ancestors wrote, and what a paper about a tree may say.

Rules kept here: nothing is written, and nothing that comes back is evidence. Every answer is of one moment of the
Ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memory.index.embedding import Embedder
from memory.lineage.evidence import WeighedLineage, weigh_lineage
from memory.lineage.papers import read_context, read_paper, recorded_values, values_of_context
from memory.lineage.retrieval import LineageAnswer, LineageQuestion, retrieve
from memory.lineage.tree import Tree, checkpoints_of, open_tree, the_checkpoint
from memory.lineage.working_context import WorkingContext, WorkingQuestion, working_context
from memory.recall.retriever import tokenizer_name
from memory.tokens import Tokenizer
from policies.budget import Fitted
from policies.lineage.best import Contract
from policies.lineage.reading_policy import lineage_reading_policy
from policies.lineage.rendering import RENDERER, render_grounded
from policies.lineage.verified import VerifiedContext
from policies.papers.matching import PaperAudit, audit_paper
from policies.papers.policy import paper_policy
from records.errors import AmbiguousIdError, InvalidInputError, NotFoundError
from store.artifacts import ArtifactStore
from store.ledger.port import OpenLedger


@dataclass(frozen=True, kw_only=True)
class PaperQuestion:
    """Which tree a paper is about.

    Attributes:
        root: the folder of all trees; files are read again below `<root>/<checkpoint>/<node>`.
        best: the node that it is about; null for the best one.
        metric: decides which is best; null for the one that the entries declare.
        budget: most tokens of a section for a prompt; null for the policy's.
    """

    root: Path
    best: str | None = None
    metric: Contract | None = None
    budget: int | None = None


class Lineage:
    """One checkpoint of one namespace, open for reading."""

    def __init__(
        self,
        ledger: OpenLedger,
        artifacts: ArtifactStore,
        namespace: str,
        embedder: Callable[[], Embedder],
        checkpoint: str | None = None,
    ) -> None:
        """Read a checkpoint of `namespace`, or its only one; `embedder` is asked for where words are searched for."""
        self._ledger, self._artifacts, self._namespace = ledger, artifacts, namespace
        self._embedder, self._checkpoint = embedder, checkpoint
        self._policy = lineage_reading_policy()

    def tree(self) -> Tree:
        """Return the checkpoint as it is now, without what retention denies.

        Raises:
            NotFoundError: there is no such checkpoint, or none at all.
            AmbiguousIdError: none was named, and there are several.
        """
        with self._ledger.reading() as reader:
            return open_tree(reader, self._namespace, the_checkpoint(reader, self._namespace, self._checkpoint))

    def search(self, question: LineageQuestion | str) -> LineageAnswer:
        """Return what the ancestors of a node wrote; a text alone is the name of the node, and asks for everything.

        Raises:
            InvalidInputError: the words are none, or the limit is below one.
            NotFoundError: the node is not known, and no parent was named that is.
            UnavailableError: the model cannot be used.
        """
        asked = LineageQuestion(node=question) if isinstance(question, str) else question
        return retrieve(self.tree(), asked, self._embedder(), self._policy)

    def working_context(self, question: WorkingQuestion | str) -> WorkingContext:
        """Return what a node begins with; a text alone is the name of the node.

        Raises:
            InvalidInputError: the budget holds not even the core.
            NotFoundError: the node is not known, or the bytes of a report are missing.
        """
        asked = WorkingQuestion(node=question) if isinstance(question, str) else question
        return working_context(self.tree(), self._artifacts, asked, self._policy, Tokenizer().count)

    def weigh(self, question: PaperQuestion) -> WeighedLineage | None:
        """Return the best node with its claims, weighed against the files as they are; None where nothing is known.

        Raises:
            InvalidInputError: there is nothing to compare nodes by.
            NotFoundError: the node that was named is not known; `ErasedError`, if it was erased.
            UnavailableError: the files cannot be looked at.
        """
        return weigh_lineage(self.tree(), question.root, self._policy, contract=question.metric, best=question.best)

    def readable_nodes(self) -> frozenset[str]:
        """Return the nodes whose report can be read now: of the checkpoint, or of all if there is none of that name."""
        with self._ledger.reading() as reader:
            try:
                names = [the_checkpoint(reader, self._namespace, self._checkpoint)]
            except (NotFoundError, AmbiguousIdError):
                names = checkpoints_of(reader, self._namespace)
            return frozenset(node for each in names for node in open_tree(reader, self._namespace, each).reports)

    def verified_context(self, question: PaperQuestion) -> VerifiedContext | None:
        """Return what a paper may rest on; None where nothing is known. Raises what `weigh` raises."""
        found = self.weigh(question)
        return None if found is None else found.context

    def grounded(self, question: PaperQuestion) -> Fitted:
        """Return the usable claims as a section of a paper's prompt; empty where there is none.

        Raises:
            VrmError: what `weigh` raises, or the budget is none.
        """
        style, tokenizer = self._policy.rendering, Tokenizer()
        if (style.renderer, style.tokenizer) != (RENDERER, tokenizer_name(tokenizer.id)):
            wanted = f"The policy is for {style.renderer}, {style.tokenizer}."
            raise InvalidInputError("rendering", f"{RENDERER}, {tokenizer.id}", wanted)
        budget = style.token_budget if question.budget is None else question.budget
        if budget < 1:
            raise InvalidInputError("budget", budget, "Give at least one token.")
        found = self.weigh(question)
        return render_grounded(() if found is None else found.claims, style, budget, tokenizer.count)

    def audit(
        self, paper: Path, against: PaperQuestion | Path, *, aliases: Mapping[str, str] | None = None
    ) -> PaperAudit:
        """Return what each number of a paper rests on.

        Args:
            paper: Markdown or LaTeX.
            against: the tree, or the file of a verified context.
            aliases: further words for metrics, with the metric's name.

        Raises:
            InvalidSourceError: the paper or the context is no such file.
            IntegrityError: the context says something else than the Ledger.
            VrmError: what `weigh` raises.
        """
        text, form = read_paper(paper)
        if isinstance(against, Path):
            context = read_context(against)
            with self._ledger.reading() as reader:
                recorded = values_of_context(reader, self._namespace, context, self._policy)
        else:
            found = self.weigh(against)
            recorded = [] if found is None else recorded_values(found.claims)
        return audit_paper(text, form, recorded, paper_policy(), aliases)
