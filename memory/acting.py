"""An actor that is a language model, over any server that speaks the OpenAI chat interface (`memory.chat`; spec 13).

Rules kept here:

- it is given what every actor is given: the instruction, the allowed actions, and the memory section byte for byte as
  the context has it. Its answer goes through the same checks as any other (`policies.preflight`);
- a server that cannot be asked, or that gives no message, is a failed invocation; a message that is no answer is
  malformed output. Neither is tried until it pleases: attempts are for the connection alone;
- a section that was erased since it was rendered is a failed invocation too: one Run ends, and its round goes on;
- the first answer kept stands, so that a job which goes on is told the same;
- the identity names the model and a digest over instruction, form, schema and limits; not the address, not the key.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from memory.chat import ChatModel
from memory.distillation.exchanges import Exchanges
from policies.acting import FORM, NO_SECTION, REQUEST, ActorFailure, answer_of, messages_of
from policies.drafting.checks import RefusalReason
from policies.instruction import actor_instruction
from policies.planner import PlannerAnswer, PlannerPolicy, PlannerQuestion
from records.canonical import domain_digest
from records.control import ControlCause
from records.errors import ErasedError
from records.values import ActorIdentity
from store.artifacts import ArtifactStore

SECTION_ERASED: Final = "section_erased"
"""Why a model is not asked whose memory was erased between its context and its answer."""


class LlmActor:
    """Asks a model for one decision at a time."""

    def __init__(self, chat: ChatModel, artifacts: ArtifactStore, exchanges: Exchanges | None = None) -> None:
        """Ask `chat`, which gives objects of `policies.acting.Said`.

        Args:
            chat: the model.
            artifacts: where the rendered sections are.
            exchanges: where what was said is kept; without it a job that goes on asks again.
        """
        self._chat, self._artifacts, self._exchanges = chat, artifacts, exchanges

    @property
    def identity(self) -> ActorIdentity:
        """Who is planned for every decision: `llm-actor/v1:<model>:<digest>`, and the instruction that it is given."""
        instruction = actor_instruction().identity
        shape = {**self._chat.options, "instruction": instruction.digest, "form": [FORM, REQUEST, NO_SECTION]}
        digest = domain_digest("actor-prompt", shape)
        return ActorIdentity(
            model=f"llm-actor/v1:{self._chat.called}:{digest}",
            config_digest=digest,
            template_digest=instruction.digest,
            policy=instruction,
        )

    def __call__(self, question: PlannerQuestion, policy: PlannerPolicy) -> PlannerAnswer | ActorFailure:  # noqa: ARG002  # what the planner is told besides is for the planner
        """Return what the model decides, or why it decided nothing: also where retention erased what it would be shown.

        Raises:
            IntegrityError: the section that the context names is damaged.
            NotFoundError: it is gone, and no erasure says why.
        """
        named = question.section_digest
        try:
            section = "" if named is None else self._artifacts.read(named).decode()
        except ErasedError:
            return ActorFailure(cause=ControlCause.ACTOR_INVOCATION_FAILED, detail=SECTION_ERASED)
        messages = messages_of(question, section)
        asked, own = domain_digest("actor-question", [messages, question.seed]), self.identity.model
        known = self._exchanges.find(asked, own) if self._exchanges else None
        if known is not None:
            return answer_of(known[0], question)
        said = self._chat.ask(messages)
        if isinstance(said, RefusalReason):
            return ActorFailure(cause=ControlCause.ACTOR_INVOCATION_FAILED, detail=said.value)
        if self._exchanges is not None:
            with suppress(OSError):  # a note that cannot be kept holds nothing up
                said, _ = self._exchanges.keep(asked, own, messages, said)
        return answer_of(said, question)
