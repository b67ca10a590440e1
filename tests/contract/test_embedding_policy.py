"""A model by policy: any sentence-transformers model with its weights pinned, and none whose weights changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.index.embedding import BUNDLED_WEIGHTS_SHA256, ModelSettings, SentenceTransformerEmbedder, _sha256
from memory.recall.context import Recall
from memory.recall.loaded import LoadedInput
from memory.snapshots import RecallInputSnapshotBuilder, recall_input_key
from policies.embedding_policy import EmbeddingPolicy, embedding_policy
from policies.loading import load_policy
from policies.retrieval_policy import retrieval_policy
from records.decisions import BlockedProposal, BlockedReason
from records.errors import InvalidInputError, UnavailableError
from records.flows import Transition
from records.ids import RecallInputId
from tests.unit.recall_support import NOW, intent, request, rule
from tests.unit.recall_world import World
from vrm.bootstrap import embedding

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "what", "raises", "scaler", "standard", "macro", "table"]


def make_model(folder: Path, seed: int) -> Path:
    """Save a real, very small sentence-transformers model whose weights follow from `seed`."""
    import torch  # noqa: PLC0415  # seconds, which collecting tests need not take; the others likewise
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: PLC0415
    from transformers import BertConfig, BertModel, BertTokenizerFast  # type: ignore[attr-defined]  # noqa: PLC0415

    torch.manual_seed(seed)
    base = folder / "base"
    base.mkdir(parents=True)
    (base / "vocab.txt").write_text("\n".join(_WORDS))
    BertTokenizerFast(str(base / "vocab.txt")).save_pretrained(str(base))
    config = BertConfig(
        vocab_size=len(_WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(str(base))
    words = Transformer(str(base), max_seq_length=32)
    saved = folder / "model"
    SentenceTransformer(modules=[words, Pooling(16)], device="cpu").save(str(saved))
    return saved


def policy_of(model: Path, weights: str) -> EmbeddingPolicy:
    text = f'policy_id: embedding\nversion: "7"\nmodel: {model}\nweights_sha256: {weights}\n'
    return load_policy(EmbeddingPolicy, f'{text}query_prompt: "query: "\npassage_prompt: ""\n', "own.yaml")


def weights_of(model: Path) -> str:
    return _sha256(model / "model.safetensors")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("small"), 1)


def ready(world: World, embedder: Any) -> RecallInputId:
    """Learn two rules and compose a Recall Input whose index `embedder` made."""
    world.learn(rule())
    snapshot = world.freeze()
    build, _ = world.index(snapshot, embedder)
    assert build.semantic
    composed = RecallInputSnapshotBuilder(retrieval_policy()).compose(snapshot, [build])
    world.direct(Transition.COMPOSE_RECALL_INPUT, recall_input_key(composed), composed)
    return RecallInputId(composed.id)


def test_the_packaged_policy_pins_the_bundled_weights() -> None:
    policy = embedding_policy()
    assert policy.weights_sha256 == BUNDLED_WEIGHTS_SHA256
    assert SentenceTransformerEmbedder(ModelSettings.of(policy)).id == SentenceTransformerEmbedder().id


def test_any_model_is_used_by_policy(model: Path) -> None:
    embedder = SentenceTransformerEmbedder(ModelSettings.of(policy_of(model, weights_of(model))))
    assert embedder.dimensions == 16
    query, passage = (embedder.embed(["standard scaler"], kind=kind)[0] for kind in ("query", "passage"))
    assert np.allclose(np.linalg.norm([query, passage], axis=1), 1, atol=1e-6)
    assert not np.array_equal(query, passage), "the prompt of the policy counts"


def test_vrm_o02_a_model_whose_weights_changed_is_blocked_and_not_degraded(tmp_path: Path) -> None:
    """The profile allows a fallback for a model that fails; another model under the same name is no such failure."""
    model = make_model(tmp_path / "first", 1)
    policy = policy_of(model, weights_of(model))
    world = World(tmp_path)
    composed = ready(world, SentenceTransformerEmbedder(ModelSettings.of(policy)))
    decision = world.admit(intent())
    asked = request(decision, composed)

    def answer(settings: ModelSettings) -> Any:
        retriever = world.retriever(embedder=SentenceTransformerEmbedder(settings), test_index=False)
        loaded = retriever.load(composed)
        assert isinstance(loaded, LoadedInput)
        return retriever.propose(decision, asked, loaded, now=NOW)

    assert isinstance(answer(ModelSettings.of(policy)), Recall)
    other = make_model(tmp_path / "other", 2)
    (other / "model.safetensors").replace(model / "model.safetensors")
    for pinned in (
        policy,
        policy_of(model, weights_of(model)),
    ):  # the old pin, and one that was changed with the weights
        refused = answer(ModelSettings.of(pinned))
        assert isinstance(refused, BlockedProposal)
        assert refused.blocked_reason is BlockedReason.POLICY_MISMATCH
    with pytest.raises(UnavailableError, match=r"embedder\.weights"):
        SentenceTransformerEmbedder(ModelSettings.of(policy)).embed(["nothing is computed with them"])


def test_an_installation_may_name_a_policy_of_its_own(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    wanted = policy_of(model, "a" * 64)
    file.write_text(
        f'policy_id: embedding\nversion: "7"\nmodel: {model}\nweights_sha256: {"a" * 64}\n'
        'query_prompt: "query: "\npassage_prompt: ""\n'
    )
    assert embedding({"VRM_EMBEDDING_POLICY": str(file)}) == wanted
    assert embedding({}) == embedding({"VRM_EMBEDDING_POLICY": ""}) == embedding_policy()
    with pytest.raises(InvalidInputError, match="VRM_EMBEDDING_POLICY"):
        embedding({"VRM_EMBEDDING_POLICY": str(tmp_path / "absent.yaml")})
    file.write_text(file.read_text().replace("a" * 64, "main"))
    with pytest.raises(InvalidInputError, match="weights_sha256"):
        embedding({"VRM_EMBEDDING_POLICY": str(file)})
