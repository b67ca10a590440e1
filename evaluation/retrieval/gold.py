"""The gold set: what was planted and what was published, written by the product and asked about.

Rules kept here: a seed's groups share one Ledger and one index, so that every question has the rules of all the others
beside its own; every table has a Ledger of its own. Nothing of a Ledger is made by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from evaluation.retrieval.asking import Answer
from evaluation.retrieval.planting import GROUPS, SEVERAL, planted
from evaluation.retrieval.questions import Question
from evaluation.retrieval.score import Row, row_of
from evaluation.retrieval.tables import TABLES, learned
from evaluation.retrieval.transformations import Clean
from evaluation.simulation.material import POLICIES
from evaluation.writer.groups import SPACE
from evaluation.writer.path import Writer
from memory.index.embedding import NON_SEMANTIC, Embedder
from policies.retrieval_policy import RetrievalPolicy

Told = Callable[[str, int, int], None]
WRITING: Final = "evidence is distilled"
ASKING: Final = "questions are asked"


@dataclass(frozen=True)
class Corpus:
    """One Ledger that has learned, ready to be asked, and what is asked of it."""

    name: str
    clean: Clean


@dataclass(frozen=True)
class Sizes:
    """How much is written: seeds, groups and scopes of several changes of each, and which tables."""

    seeds: int = 3
    groups: int = GROUPS
    several: int = SEVERAL
    tables: Sequence[str] = TABLES


def corpora(sizes: Sizes, embedder: Embedder, policy: RetrievalPolicy, told: Told) -> Iterator[Corpus]:
    """Write and yield every corpus: one of each seed from 0 on, then the tables."""
    count = sizes.seeds + len(sizes.tables)
    for seed in range(sizes.seeds):
        told(WRITING, seed, count)
        made, writer = planted(seed, sizes.groups, sizes.several), Writer(POLICIES)
        writer.write(made.groups)
        yield Corpus(f"seed {seed}", clean_of(writer, made.questions, embedder, policy))
    for place, name in enumerate(sizes.tables, sizes.seeds):
        told(WRITING, place, count)
        table = learned(name, Writer(POLICIES))
        yield Corpus(name, clean_of(table.writer, table.questions, embedder, policy))
    told(WRITING, count, count)


def answered(corpus: Corpus) -> list[Answer]:
    """Ask every question of a corpus."""
    return corpus.clean.ask(corpus.clean.ledger)


def rows(corpus: Corpus, answers: Iterable[Answer]) -> list[Row]:
    """Count answers."""
    ground = corpus.clean.ground(corpus.clean.ledger)
    return [row_of(answer, ground) for answer in answers]


def only(clean: Clean, half: str) -> Clean:
    """Return the same with the questions of one half."""
    return replace(clean, questions=tuple(each for each in clean.questions if each.half == half))


def clean_of(writer: Writer, questions: Sequence[Question], embedder: Embedder, policy: RetrievalPolicy) -> Clean:
    """Return what a writer has learned, ready to be asked."""
    return Clean(
        ledger=writer.ledger,
        artifacts=writer.artifacts,
        embedder=embedder,
        policy=policy,
        namespace=SPACE,
        questions=tuple(questions),
        tainted=frozenset(key for key, (_, run) in writer.entered.items() if run.taint is not None),
        test_index=embedder.id.startswith(NON_SEMANTIC),
    )
