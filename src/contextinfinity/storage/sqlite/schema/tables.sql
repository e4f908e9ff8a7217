-- Made from the migrations: read this, but change those.

CREATE TABLE blank_sign (               -- what shows nothing: what Unicode calls white space, and signs that are not seen
  signs TEXT NOT NULL
) STRICT;

CREATE TABLE blob (                     -- images and files, by their hash
  hash BLOB PRIMARY KEY,
  media_type TEXT NOT NULL,
  kept_at INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE blob_use (                 -- which messages show which blob
  hash BLOB NOT NULL REFERENCES blob (hash),
  message_key INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  PRIMARY KEY (hash, message_key)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE branch_end (               -- the last turn that a branch sees and that did not fail, if it was answered
  branch_id BLOB PRIMARY KEY CHECK (length(branch_id) = 16),
  session_id BLOB NOT NULL,
  turn_id BLOB NOT NULL,
  turn_seq INTEGER NOT NULL,
  is_own INTEGER NOT NULL,              -- 0: the branch was begun after it, and says nothing of its own yet
  answered INTEGER,                     -- its trails
  alone INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE deletion (                 -- sessions that may be deleted from, while the row stands
  session_id BLOB PRIMARY KEY,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE expiry (                   -- sessions with a time to live, and when next to look at each
  session_id BLOB PRIMARY KEY,
  ttl INTEGER NOT NULL,                 -- milliseconds
  due INTEGER NOT NULL                  -- nothing of it expires before
) STRICT, WITHOUT ROWID;

CREATE TABLE fold_candidate (           -- a fold that could be committed, one a branch; with a rowid: bodies are long
  branch_id BLOB PRIMARY KEY REFERENCES branch (id),
  session_id BLOB NOT NULL,
  body TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE forgotten (                -- what no turn from before may bring back: in one session, or (empty) anywhere
  owner_key INTEGER NOT NULL, hash BLOB NOT NULL, thread BLOB NOT NULL, forgotten_at INTEGER NOT NULL,
  PRIMARY KEY (owner_key, hash, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE hex_byte (                 -- SQLite before 3.41 cannot read hexadecimal by itself
  pair TEXT PRIMARY KEY,
  byte BLOB NOT NULL
) STRICT, WITHOUT ROWID;

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
  again INTEGER NOT NULL DEFAULT 0,     -- asked for while it ran: to be run once more
  owner TEXT,                           -- the worker that runs it
  run_at INTEGER NOT NULL,              -- not before
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE loose_text (               -- texts that something deleted referred to: to be removed if nothing else does
  key INTEGER PRIMARY KEY,
  personal INTEGER NOT NULL,            -- 1: nobody else is about to refer to it
  session_id BLOB                       -- whose plans do not count: it repeats what was deleted there
) STRICT;

CREATE TABLE memory (
  key INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  owner_key INTEGER NOT NULL,
  thread BLOB NOT NULL,                 -- the session whose alone it is; empty: the user's
  content TEXT NOT NULL CHECK (length(content) BETWEEN 1 AND 500),
  hash BLOB NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('self', 'preference', 'wish', 'plan', 'note')),
  about TEXT NOT NULL,                  -- what can be true once only; empty: nothing of that kind
  origin TEXT NOT NULL CHECK (origin IN ('drawn', 'asked', 'person')),
  confidence REAL NOT NULL,
  weight INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  valid_from INTEGER NOT NULL,          -- when it was last said
  valid_to INTEGER, last_placed_at INTEGER,
  superseded_by BLOB, superseded_at INTEGER,  -- memory.id (one that is not there was forgotten), when it was said
  namespace TEXT,                       -- who made the vector
  vector BLOB
) STRICT;

CREATE TABLE memory_owner (             -- a user in an organisation
  key INTEGER PRIMARY KEY, org_id TEXT NOT NULL, user_id TEXT NOT NULL, UNIQUE (org_id, user_id)
) STRICT;

CREATE TABLE memory_source (            -- a turn that said it, and where
  memory_key INTEGER NOT NULL,
  turn_id BLOB NOT NULL, session_id BLOB NOT NULL, branch_id BLOB NOT NULL, turn_seq INTEGER NOT NULL,
  start INTEGER NOT NULL, end INTEGER NOT NULL, said_at INTEGER NOT NULL,
  PRIMARY KEY (memory_key, turn_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (                  -- what was said, once: plain text as it is, anything richer as blocks
  key INTEGER PRIMARY KEY,
  session_id BLOB NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  text TEXT,
  blocks TEXT,
  content_hash BLOB NOT NULL,
  CHECK ((text IS NULL) <> (blocks IS NULL))
) STRICT;

CREATE TABLE origin (                   -- a message may hold several records: results of tools stand together
  message_key INTEGER NOT NULL REFERENCES message (key),
  place INTEGER NOT NULL,               -- among the messages of its conversation there
  session_id BLOB NOT NULL,
  answers INTEGER NOT NULL,             -- 1: it is its turn's answer, 0: its question
  external_id TEXT,
  mark INTEGER,                         -- of session and external_id: ids are long and random, and this is the index
  hash BLOB NOT NULL,                   -- of what it says
  said_at INTEGER,
  details TEXT,                         -- whatever else was said of it there
  PRIMARY KEY (message_key, place),
  CHECK ((external_id IS NULL) = (mark IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE plan (                     -- the account of a request; step_index -1: a question asked back
  turn_id BLOB NOT NULL REFERENCES turn (id),
  step_index INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (turn_id, step_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (                  -- a request that may come again, and what it made: a session, or a turn in it
  key BLOB PRIMARY KEY CHECK (length(key) = 32),
  asked BLOB NOT NULL CHECK (length(asked) = 32),
  session_id BLOB NOT NULL, turn_id BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE response (                 -- raw replies, compressed; may be pruned without touching the transcript
  step_id BLOB PRIMARY KEY REFERENCES step (id),
  session_id BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;

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

CREATE TABLE text (                     -- texts that many rows share: summaries, pins, system prompts
  key INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  body TEXT NOT NULL,
  kept_at INTEGER NOT NULL              -- when somebody last wanted it: what is young is never collected
) STRICT;

CREATE TABLE token (                    -- what it says is nowhere, only its hash
  sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
  id BLOB NOT NULL CHECK (length(id) = 16),
  org_id TEXT NOT NULL, user_id TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
  created_at INTEGER NOT NULL,
  revoked_at INTEGER                    -- NULL: it counts
, expires_at INTEGER) STRICT, WITHOUT ROWID;

CREATE TABLE tombstone (                -- what once stood there
  id BLOB PRIMARY KEY,
  session_id BLOB NOT NULL,
  kind TEXT NOT NULL,
  seq INTEGER,
  deleted_at INTEGER NOT NULL
, org_id TEXT, user_id TEXT) STRICT, WITHOUT ROWID;

CREATE TABLE trail (                    -- numbers that roll over what was said: see domain/trail.py
  turn_id BLOB PRIMARY KEY CHECK (length(turn_id) = 16),
  session_id BLOB NOT NULL,
  asked INTEGER,                        -- up to the question; NULL: what stood before it has no trail
  answered INTEGER,                     -- up to the answer
  alone INTEGER,                        -- of question and answer, whatever stood before
  body INTEGER                          -- of the request that made it
, before INTEGER, broken_at INTEGER) STRICT, WITHOUT ROWID;

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
  steps INTEGER NOT NULL DEFAULT 0,     -- provider calls it took; counted when it ends
  owner TEXT,
  retry_of BLOB,
  degraded INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0,
  cost REAL,
  error TEXT,
  metadata TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, latency_ms TEXT,
  PRIMARY KEY (branch_id, turn_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (                   -- processes at work; on this host each also holds a file lock
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  beats INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  dead_at INTEGER                       -- when it was declared dead: what it still tries is refused
) STRICT, WITHOUT ROWID;
