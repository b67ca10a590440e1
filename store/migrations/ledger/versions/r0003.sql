ALTER TABLE ledger."decision_recall_context_items" ALTER COLUMN "memory_id" DROP NOT NULL;
CREATE TABLE ledger.reference_index_builds (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.reference_sources (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace)
);
CREATE TABLE ledger.reference_chunk_sets (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	source_id TEXT NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, source_id) REFERENCES ledger.reference_sources (namespace, id)
);
CREATE TABLE ledger.reference_contexts (
	id TEXT NOT NULL,
	namespace TEXT NOT NULL,
	position BIGINT NOT NULL CHECK (position > 0),
	index_build_id TEXT NOT NULL,
	research_context_digest TEXT NOT NULL CHECK (octet_length(research_context_digest) = 64),
	payload TEXT NOT NULL,
	PRIMARY KEY (id, namespace),
	FOREIGN KEY(namespace, index_build_id) REFERENCES ledger.reference_index_builds (namespace, id)
);
CREATE TABLE ledger.reference_chunks (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	chunk_id TEXT NOT NULL,
	sha256 TEXT NOT NULL CHECK (octet_length(sha256) = 64),
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT reference_chunks_one_chunk_id UNIQUE (parent_id, chunk_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.reference_chunk_sets (namespace, id)
);
CREATE TABLE ledger.reference_context_cards (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	source_id TEXT NOT NULL,
	chunks_id TEXT NOT NULL,
	chunk_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT reference_context_cards_one_chunk_id UNIQUE (parent_id, chunk_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.reference_contexts (namespace, id),
	FOREIGN KEY(namespace, source_id) REFERENCES ledger.reference_sources (namespace, id),
	FOREIGN KEY(namespace, chunks_id) REFERENCES ledger.reference_chunk_sets (namespace, id)
);
CREATE TABLE ledger.reference_index_members (
	parent_id TEXT NOT NULL,
	ordinal BIGINT NOT NULL CHECK (ordinal > 0),
	namespace TEXT NOT NULL,
	source_id TEXT NOT NULL,
	chunks_id TEXT NOT NULL,
	PRIMARY KEY (parent_id, ordinal),
	CONSTRAINT reference_index_members_one_source_id UNIQUE (parent_id, source_id),
	FOREIGN KEY(namespace, parent_id) REFERENCES ledger.reference_index_builds (namespace, id),
	FOREIGN KEY(namespace, source_id) REFERENCES ledger.reference_sources (namespace, id),
	FOREIGN KEY(namespace, chunks_id) REFERENCES ledger.reference_chunk_sets (namespace, id)
);
CREATE INDEX reference_chunk_sets_by_source_id ON ledger.reference_chunk_sets (namespace, source_id);
CREATE INDEX reference_contexts_by_index_build_id ON ledger.reference_contexts (namespace, index_build_id);
CREATE INDEX reference_contexts_by_research_context_digest ON ledger.reference_contexts (namespace, research_context_digest);
