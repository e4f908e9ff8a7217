-- The tables that a handful of verbs need, in PostgreSQL.
CREATE TABLE text (key bigserial PRIMARY KEY, hash bytea UNIQUE, body text NOT NULL, kept_at bigint NOT NULL);
CREATE TABLE deletion (session_id bytea PRIMARY KEY);
CREATE TABLE worker (id text PRIMARY KEY, dead_at bigint);
CREATE TABLE session (
  id bytea PRIMARY KEY, org_id text NOT NULL, user_id text NOT NULL, external_id text, kind text NOT NULL, title text,
  system bigint REFERENCES text, ttl_hours double precision, active_branch bytea NOT NULL, created_at bigint NOT NULL,
  updated_at bigint NOT NULL, metadata text);
CREATE TABLE branch (
  id bytea PRIMARY KEY, session_id bytea NOT NULL REFERENCES session, parent_id bytea, fork_seq bigint NOT NULL,
  base_state bytea NOT NULL, head_state bytea NOT NULL, head_seq bigint NOT NULL, last_turn_seq bigint NOT NULL,
  label text, created_at bigint NOT NULL);
CREATE TABLE state (
  id bytea PRIMARY KEY, session_id bytea NOT NULL, branch_id bytea NOT NULL, state_seq bigint NOT NULL,
  parent_id bytea, turn_seq bigint NOT NULL, covers_turn_seq bigint NOT NULL, reason text NOT NULL, summary bigint,
  pins bigint, token_count_est bigint NOT NULL, created_at bigint NOT NULL, schema_version bigint NOT NULL);
CREATE TABLE message (
  key bigserial PRIMARY KEY, session_id bytea NOT NULL, role text NOT NULL, text text, blocks text,
  content_hash bytea NOT NULL);
CREATE TABLE keyword (message_key bigint PRIMARY KEY REFERENCES message, words tsvector NOT NULL);
CREATE TABLE turn (
  id bytea NOT NULL UNIQUE, session_id bytea NOT NULL, branch_id bytea NOT NULL REFERENCES branch, turn_seq bigint,
  phase text NOT NULL, outcome text, state_before bytea NOT NULL, state_after bytea, user_message bigint NOT NULL,
  answer bigint, provider text NOT NULL DEFAULT '', model text NOT NULL DEFAULT '', steps bigint NOT NULL DEFAULT 0,
  owner text, retry_of bytea, degraded bigint NOT NULL DEFAULT 0, cancel_requested bigint NOT NULL DEFAULT 0,
  input_tokens bigint NOT NULL DEFAULT 0, output_tokens bigint NOT NULL DEFAULT 0,
  cached_tokens bigint NOT NULL DEFAULT 0, cost double precision, error text, metadata text,
  created_at bigint NOT NULL, updated_at bigint NOT NULL, latency_ms text, PRIMARY KEY (branch_id, turn_seq));
CREATE TABLE step (
  id bytea PRIMARY KEY, session_id bytea NOT NULL, turn_id bytea NOT NULL REFERENCES turn (id),
  step_index bigint NOT NULL, provider text NOT NULL, model_id text NOT NULL, inputs text, items text, outcome text,
  input_tokens bigint NOT NULL DEFAULT 0, output_tokens bigint NOT NULL DEFAULT 0,
  cached_tokens bigint NOT NULL DEFAULT 0, cost double precision, displayed_bytes bigint, durable_bytes bigint,
  started_at bigint NOT NULL, ended_at bigint, UNIQUE (turn_id, step_index));
CREATE TABLE plan (turn_id bytea, step_index bigint, session_id bytea, body text, PRIMARY KEY (turn_id, step_index));
CREATE TABLE response (step_id bytea PRIMARY KEY REFERENCES step, session_id bytea NOT NULL, body bytea NOT NULL);
CREATE TABLE trail (
  turn_id bytea PRIMARY KEY, session_id bytea NOT NULL, asked bigint, before bigint, answered bigint, alone bigint);
CREATE TABLE branch_end (
  branch_id bytea PRIMARY KEY, session_id bytea NOT NULL, turn_id bytea NOT NULL, turn_seq bigint NOT NULL,
  is_own bigint NOT NULL, answered bigint, alone bigint);
CREATE TABLE job (
  id bigserial PRIMARY KEY, job_type text NOT NULL, session_id bytea NOT NULL, branch_id bytea NOT NULL,
  turn_id bytea, turn_seq bigint NOT NULL, state text NOT NULL, attempts bigint NOT NULL DEFAULT 0,
  run_at bigint NOT NULL, created_at bigint NOT NULL, updated_at bigint NOT NULL);
CREATE UNIQUE INDEX job_once ON job (turn_id, job_type) WHERE turn_id IS NOT NULL;
CREATE UNIQUE INDEX one_open_turn ON turn (branch_id) WHERE phase IN ('ContextPrepared', 'Responding');
