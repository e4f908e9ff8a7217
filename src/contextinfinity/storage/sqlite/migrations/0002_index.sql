-- What makes the past findable: chunks name spans of messages, vectors belong to one model each.

CREATE TABLE chunk (
  key INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  session_id BLOB NOT NULL,
  branch_id BLOB NOT NULL,
  turn_id BLOB NOT NULL REFERENCES turn (id),
  side TEXT NOT NULL CHECK (side IN ('user', 'assistant')),
  start INTEGER NOT NULL CHECK (start >= 0),
  end INTEGER NOT NULL CHECK (end > start),
  summary TEXT NOT NULL,
  chunk_type TEXT NOT NULL
    CHECK (chunk_type IN ('Code', 'Explanation', 'Decision', 'UserContext', 'ToolResult', 'Other')),
  token_est INTEGER NOT NULL,
  content_hash BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunk_once ON chunk (turn_id, chunk_type, content_hash);

CREATE TABLE embedding_model (
  key INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  dim INTEGER NOT NULL CHECK (dim > 0)
) STRICT;

CREATE TABLE vector (                   -- 16-bit floats; with a rowid, because the bodies are too long for an index
  chunk_key INTEGER NOT NULL REFERENCES chunk (key),
  model_key INTEGER NOT NULL REFERENCES embedding_model (key),
  session_id BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX vector_once ON vector (chunk_key, model_key);
CREATE INDEX vector_by_model ON vector (model_key);

CREATE TABLE retrieval (                -- which chunks a turn's prompt held
  turn_id BLOB NOT NULL REFERENCES turn (id),
  chunk_id BLOB NOT NULL,
  session_id BLOB NOT NULL,
  similarity REAL NOT NULL,
  rank INTEGER NOT NULL,
  PRIMARY KEY (turn_id, chunk_id)
) STRICT, WITHOUT ROWID;
