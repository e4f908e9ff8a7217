-- Made from the migrations; read it, but change the migrations.

CREATE TABLE branch (
  id BLOB PRIMARY KEY,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  session_id BLOB NOT NULL REFERENCES session (id),
  parent_id BLOB,                       -- the branch that owns turn fork_seq; NULL for the first one
  fork_seq INTEGER NOT NULL CHECK (fork_seq >= 0),
  base_state BLOB NOT NULL,
  head_state BLOB NOT NULL,
  head_seq INTEGER NOT NULL,
  last_turn_seq INTEGER NOT NULL CHECK (last_turn_seq >= fork_seq),
  label TEXT,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX branch_by_session ON branch (session_id);

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

CREATE TABLE deletion (                 -- sessions that may be deleted from, while the row stands
  session_id BLOB PRIMARY KEY,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE embedding_model (
  key INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  dim INTEGER NOT NULL CHECK (dim > 0)
) STRICT;

CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  job_type TEXT NOT NULL
    CHECK (job_type IN ('summarize_turn', 'index_turn', 'remember_turn', 'fold_branch', 'reconcile_stream')),
  session_id BLOB NOT NULL,
  branch_id BLOB NOT NULL,
  turn_id BLOB REFERENCES turn (id),
  turn_seq INTEGER NOT NULL,            -- branch order
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  owner TEXT,                           -- the worker that runs it
  run_at INTEGER NOT NULL,              -- not before
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX job_by_branch ON job (branch_id, turn_seq, id);
CREATE INDEX job_by_state ON job (state, run_at);
CREATE UNIQUE INDEX job_once ON job (turn_id, job_type) WHERE turn_id IS NOT NULL;

CREATE TABLE message (                  -- what was said, once: plain text as it is, anything richer as blocks
  key INTEGER PRIMARY KEY,
  session_id BLOB NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  text TEXT,
  blocks TEXT,
  content_hash BLOB NOT NULL,
  CHECK ((text IS NULL) <> (blocks IS NULL))
) STRICT;

CREATE TABLE plan (                     -- the account of a request; step_index -1: a question asked back
  turn_id BLOB NOT NULL REFERENCES turn (id),
  step_index INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (turn_id, step_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE response (                 -- raw replies, compressed; may be pruned without touching the transcript
  step_id BLOB PRIMARY KEY REFERENCES step (id),
  session_id BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE retrieval (                -- which chunks a turn's prompt held
  turn_id BLOB NOT NULL REFERENCES turn (id),
  chunk_id BLOB NOT NULL,
  session_id BLOB NOT NULL,
  similarity REAL NOT NULL,
  rank INTEGER NOT NULL,
  PRIMARY KEY (turn_id, chunk_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE schema_version (           -- which migrations this file has seen
  version INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE session (
  id BLOB PRIMARY KEY,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  org_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  external_id TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('thread', 'chat')),
  title TEXT,
  system INTEGER REFERENCES text (key),
  ttl_hours REAL CHECK (ttl_hours > 0),
  active_branch BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX session_by_external_id ON session (org_id, user_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX session_by_owner ON session (org_id, user_id, updated_at, id);
CREATE INDEX session_by_system ON session (system) WHERE system IS NOT NULL;
CREATE INDEX session_by_user ON session (user_id);
CREATE UNIQUE INDEX session_by_uuid ON session (uuid);

CREATE TABLE state (
  id BLOB PRIMARY KEY,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  session_id BLOB NOT NULL,
  branch_id BLOB NOT NULL REFERENCES branch (id) DEFERRABLE INITIALLY DEFERRED,
  state_seq INTEGER NOT NULL CHECK (state_seq >= 0),
  parent_id BLOB,
  turn_seq INTEGER NOT NULL CHECK (turn_seq >= 0),
  covers_turn_seq INTEGER NOT NULL CHECK (covers_turn_seq BETWEEN 0 AND turn_seq),
  reason TEXT NOT NULL,
  summary INTEGER,                      -- text.key; NULL: empty
  pins INTEGER,                         -- text.key of a JSON array; NULL: none
  token_count_est INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  schema_version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX state_by_branch ON state (branch_id, state_seq);

CREATE TABLE step (
  id BLOB PRIMARY KEY,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  session_id BLOB NOT NULL,
  turn_id BLOB NOT NULL REFERENCES turn (id),
  step_index INTEGER NOT NULL CHECK (step_index >= 0),
  provider TEXT NOT NULL,
  model_id TEXT NOT NULL,
  inputs TEXT,                          -- tool outputs this call answers; NULL: none
  items TEXT,                           -- what came back; the turn's answer inside it is a reference
  outcome TEXT,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0,
  cost REAL,
  displayed_bytes INTEGER NOT NULL DEFAULT 0,
  durable_bytes INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX step_by_turn ON step (turn_id, step_index);

CREATE TABLE text (                     -- texts that many rows share: summaries, pins, system prompts
  key INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE tombstone (                -- what once stood there
  id BLOB PRIMARY KEY,
  session_id BLOB NOT NULL,
  kind TEXT NOT NULL,
  seq INTEGER,
  deleted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turn (
  id BLOB NOT NULL UNIQUE,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  session_id BLOB NOT NULL,
  branch_id BLOB NOT NULL REFERENCES branch (id),
  turn_seq INTEGER NOT NULL CHECK (turn_seq > 0),
  phase TEXT NOT NULL,
  outcome TEXT CHECK (outcome IN ('completed', 'incomplete', 'paused', 'failed', 'cancelled', 'clarification')),
  state_before BLOB NOT NULL,
  state_after BLOB,
  user_message INTEGER NOT NULL,        -- message.key
  answer INTEGER,                       -- message.key; NULL until final, or for ever
  provider TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  owner TEXT,
  retry_of BLOB,
  degraded INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0,
  cost REAL,
  error TEXT,
  metadata TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (branch_id, turn_seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_open_turn ON turn (branch_id) WHERE phase IN ('ContextPrepared', 'Responding');
CREATE INDEX turn_by_created_at ON turn (created_at);
CREATE INDEX turn_unfinished ON turn (branch_id, turn_seq) WHERE phase NOT IN ('Done', 'Failed');

CREATE TABLE vector (
  chunk_key INTEGER NOT NULL REFERENCES chunk (key),
  model_key INTEGER NOT NULL REFERENCES embedding_model (key),
  session_id BLOB NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (chunk_key, model_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX vector_by_model ON vector (model_key);

CREATE VIEW branches AS
SELECT b.uuid AS id, s.uuid AS session_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', b.created_at / 1000.0, 'unixepoch') AS created_at,
  base.uuid AS base_state, head.uuid AS head_state, b.head_seq, b.label,
  parent.uuid AS parent_id, b.fork_seq, b.last_turn_seq
FROM branch AS b JOIN session AS s ON s.id = b.session_id
  JOIN state AS base ON base.id = b.base_state JOIN state AS head ON head.id = b.head_state
  LEFT JOIN branch AS parent ON parent.id = b.parent_id;

CREATE VIEW chunks AS
SELECT c.uuid AS id, s.uuid AS session_id, b.uuid AS branch_id, t.uuid AS source_turn,
  substr(m.rendered_text, c.start + 1, c.end - c.start) AS rendered_text, c.summary,
  coalesce(em.name, '') AS embedding_model, coalesce(em.dim, 0) AS embedding_dim, coalesce(v.body, x'') AS embedding,
  c.chunk_type, c.token_est, c.content_hash,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch') AS created_at, c.side, c.start, c.end
FROM chunk AS c JOIN session AS s ON s.id = c.session_id JOIN branch AS b ON b.id = c.branch_id
  JOIN turn AS t ON t.id = c.turn_id
  JOIN messages AS m ON m.key = CASE c.side WHEN 'user' THEN t.user_message ELSE t.answer END
  LEFT JOIN vector AS v ON v.chunk_key = c.key
    AND v.model_key = (SELECT max(model_key) FROM vector WHERE chunk_key = c.key)
  LEFT JOIN embedding_model AS em ON em.key = v.model_key;

CREATE VIEW conversation_turns AS
SELECT t.uuid AS id, s.uuid AS session_id, s.user_id, t.turn_seq AS turn_number,
  q.rendered_text AS query_text, coalesce(a.rendered_text, '') AS response_text,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
  coalesce(t.metadata, '{}') AS metadata
FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
  JOIN turn AS t ON t.branch_id = b.id
  JOIN messages AS q ON q.key = t.user_message LEFT JOIN messages AS a ON a.key = t.answer;

CREATE VIEW jobs AS
SELECT j.id, j.job_type, t.uuid AS turn_id, j.state, j.attempts, j.last_error,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.updated_at / 1000.0, 'unixepoch') AS updated_at,
  b.uuid AS branch_id, j.turn_seq, j.owner,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1000.0, 'unixepoch') AS run_at
FROM job AS j JOIN branch AS b ON b.id = j.branch_id LEFT JOIN turn AS t ON t.id = j.turn_id;

CREATE VIEW messages AS
SELECT m.key, s.uuid AS session_id, m.role,
  coalesce(m.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(m.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '') AS rendered_text,
  coalesce(json_extract(m.blocks, '$.is.blocks'),
    json_array(json_object('type', 'text', 'text', m.text))) AS blocks_json,
  lower(hex(m.content_hash)) AS content_hash
FROM message AS m JOIN session AS s ON s.id = m.session_id;

CREATE VIEW retrievals AS
SELECT t.uuid AS turn_id, c.uuid AS chunk_id, r.similarity, r.rank
FROM retrieval AS r JOIN turn AS t ON t.id = r.turn_id JOIN chunk AS c ON c.id = r.chunk_id;

CREATE VIEW sessions AS
SELECT s.uuid AS id, strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at / 1000.0, 'unixepoch') AS created_at, s.title,
  b.uuid AS active_branch, s.org_id, s.user_id, s.external_id, s.kind, s.ttl_hours, t.body AS system,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.updated_at / 1000.0, 'unixepoch') AS updated_at
FROM session AS s JOIN branch AS b ON b.id = s.active_branch LEFT JOIN text AS t ON t.key = s.system;

CREATE VIEW states AS
SELECT st.uuid AS id, s.uuid AS session_id, b.uuid AS branch_id, st.state_seq, parent.uuid AS parent_id,
  coalesce(summary.body, '') AS summary,
  coalesce((SELECT group_concat(fact, char(10)) FROM (
    SELECT f.value AS fact FROM json_each(pins.body) AS f ORDER BY f.key)), '') AS pinned_facts,
  st.token_count_est, strftime('%Y-%m-%dT%H:%M:%fZ', st.created_at / 1000.0, 'unixepoch') AS created_at,
  st.schema_version, st.turn_seq, st.covers_turn_seq, st.reason
FROM state AS st JOIN session AS s ON s.id = st.session_id JOIN branch AS b ON b.id = st.branch_id
  LEFT JOIN state AS parent ON parent.id = st.parent_id
  LEFT JOIN text AS summary ON summary.key = st.summary LEFT JOIN text AS pins ON pins.key = st.pins;

CREATE VIEW steps AS
SELECT st.uuid AS id, t.uuid AS turn_id, st.step_index, st.provider, st.model_id,
  coalesce(json_extract(p.body, '$.is'), '{}') AS request_json,
  CASE WHEN r.step_id IS NOT NULL THEN json_object('zlib_bytes', length(r.body)) END AS response_json,
  coalesce((SELECT json_group_array(json(item)) FROM (
    SELECT CASE json_extract(i.value, '$.type') WHEN 'answer'
      THEN json_object('type', 'assistant_message', 'blocks', json(a.blocks_json)) ELSE i.value END AS item
    FROM json_each(st.items, '$.is.items') AS i ORDER BY i.key)), '[]') AS normalized_items_json,
  coalesce(json_extract(st.outcome, '$.is'), 'null') AS outcome_json,
  'streams/' || st.uuid || '.jsonl' AS stream_path,
  st.displayed_bytes AS stream_displayed_bytes, st.durable_bytes AS stream_durable_bytes,
  strftime('%Y-%m-%dT%H:%M:%fZ', st.started_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', st.ended_at / 1000.0, 'unixepoch') AS ended_at
FROM step AS st JOIN turn AS t ON t.id = st.turn_id
  LEFT JOIN messages AS a ON a.key = t.answer
  LEFT JOIN plan AS p ON p.turn_id = st.turn_id AND p.step_index = st.step_index
  LEFT JOIN response AS r ON r.step_id = st.id;

CREATE VIEW turns AS
SELECT t.uuid AS id, s.uuid AS session_id, b.uuid AS branch_id, t.turn_seq,
  before.uuid AS state_before, after.uuid AS state_after, t.phase,
  json_object('role', um.role, 'blocks', json(um.blocks_json), 'rendered_text', um.rendered_text)
    AS user_message_json,
  CASE WHEN am.key IS NOT NULL THEN
    json_object('role', am.role, 'blocks', json(am.blocks_json), 'rendered_text', am.rendered_text) END
    AS final_assistant_message_json,
  t.provider AS primary_provider, t.model AS primary_model,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.updated_at / 1000.0, 'unixepoch') AS updated_at,
  t.outcome, t.owner, t.degraded, json_extract(t.error, '$.is') AS error_json
FROM turn AS t JOIN session AS s ON s.id = t.session_id JOIN branch AS b ON b.id = t.branch_id
  JOIN state AS before ON before.id = t.state_before LEFT JOIN state AS after ON after.id = t.state_after
  JOIN messages AS um ON um.key = t.user_message LEFT JOIN messages AS am ON am.key = t.answer;

CREATE TRIGGER head_is_a_state_of_the_session BEFORE UPDATE OF head_state, head_seq ON branch
WHEN NOT EXISTS (SELECT 1 FROM state
  WHERE id = NEW.head_state AND state_seq = NEW.head_seq AND session_id = NEW.session_id)
BEGIN SELECT raise(ABORT, 'head: a branch points only to a state of its session, with that state''s number'); END;

CREATE TRIGGER chunk_is_immutable BEFORE UPDATE ON chunk
BEGIN SELECT raise(ABORT, 'immutable: a chunk never changes; index the turn again'); END;

CREATE TRIGGER message_is_immutable BEFORE UPDATE ON message
BEGIN SELECT raise(ABORT, 'immutable: a message never changes; record a new one'); END;

CREATE TRIGGER message_stays BEFORE DELETE ON message
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a message is deleted only with a deletion of its session'); END;

CREATE TRIGGER plan_is_immutable BEFORE UPDATE ON plan
BEGIN SELECT raise(ABORT, 'immutable: a plan never changes'); END;

CREATE TRIGGER state_is_immutable BEFORE UPDATE ON state
BEGIN SELECT raise(ABORT, 'immutable: a state never changes; commit a new one'); END;

CREATE TRIGGER state_stays BEFORE DELETE ON state
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a state is deleted only with a deletion of its session'); END;

CREATE TRIGGER step_end_is_immutable BEFORE UPDATE ON step
WHEN OLD.outcome IS NOT NULL
BEGIN SELECT raise(ABORT, 'immutable: a step ends once'); END;

CREATE TRIGGER step_stays BEFORE DELETE ON step
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a step is deleted only with a deletion of its session'); END;

CREATE TRIGGER text_is_immutable BEFORE UPDATE ON text
BEGIN SELECT raise(ABORT, 'immutable: a shared text never changes'); END;

CREATE TRIGGER turn_answer_is_set_once BEFORE UPDATE OF answer ON turn
WHEN OLD.answer IS NOT NULL AND NEW.answer IS NOT OLD.answer
BEGIN SELECT raise(ABORT, 'immutable: an answer is set once'); END;

CREATE TRIGGER turn_begins_somewhere BEFORE INSERT ON turn
WHEN NEW.phase NOT IN ('Accepted', 'Done')
BEGIN SELECT raise(ABORT, 'phase: a turn begins as Accepted, or as Done when it was finished elsewhere'); END;

CREATE TRIGGER turn_commit_is_set_once BEFORE UPDATE OF state_after ON turn
WHEN OLD.state_after IS NOT NULL AND NEW.state_after IS NOT OLD.state_after
BEGIN SELECT raise(ABORT, 'immutable: a turn is committed once'); END;

CREATE TRIGGER turn_content_is_immutable
BEFORE UPDATE OF id, session_id, branch_id, turn_seq, user_message, state_before, created_at, retry_of ON turn
WHEN (NEW.id, NEW.session_id, NEW.branch_id, NEW.turn_seq, NEW.user_message, NEW.state_before, NEW.created_at,
    NEW.retry_of) IS NOT (OLD.id, OLD.session_id, OLD.branch_id, OLD.turn_seq, OLD.user_message, OLD.state_before,
    OLD.created_at, OLD.retry_of)
BEGIN SELECT raise(ABORT, 'immutable: where a turn stands and what it asked never change'); END;

CREATE TRIGGER turn_phase_follows BEFORE UPDATE OF phase ON turn
WHEN NEW.phase <> OLD.phase AND (OLD.phase || '>' || NEW.phase) NOT IN (
  'Accepted>ContextPrepared', 'Accepted>Failed',
  'ContextPrepared>Responding', 'ContextPrepared>ResponseFinalized', 'ContextPrepared>Failed',
  'Responding>ResponseFinalized', 'Responding>Failed',
  'ResponseFinalized>StateCommitted', 'StateCommitted>Indexed', 'Indexed>Done')
BEGIN SELECT raise(ABORT, 'phase: a turn cannot go from its phase to that one'); END;

CREATE TRIGGER turn_stays BEFORE DELETE ON turn
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a turn is deleted only with a deletion of its session'); END;
