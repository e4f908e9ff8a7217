-- Made from the migrations: read this, but change those.

CREATE TABLE chunk (                    -- its id is made of its turn, its type and its words
  key INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  uuid TEXT GENERATED ALWAYS AS (lower(substr(hex(id), 1, 8) || '-' || substr(hex(id), 9, 4) || '-'
    || substr(hex(id), 13, 4) || '-' || substr(hex(id), 17, 4) || '-' || substr(hex(id), 21))) VIRTUAL,
  session_id BLOB NOT NULL,
  branch_id BLOB NOT NULL,
  turn_id BLOB NOT NULL REFERENCES turn (id),
  side TEXT NOT NULL CHECK (side IN ('user', 'assistant', 'tool')),
  start INTEGER NOT NULL CHECK (start >= 0),
  end INTEGER NOT NULL CHECK (end > start),
  summary TEXT NOT NULL,
  chunk_type TEXT NOT NULL
    CHECK (chunk_type IN ('Code', 'Explanation', 'Decision', 'UserContext', 'ToolResult', 'Other')),
  token_est INTEGER NOT NULL,
  content_hash BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE VIRTUAL TABLE keyword USING fts5 (
  words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

CREATE TABLE loose_vector (             -- the newest of a session: a 32-bit scale, then a signed byte a number
  key INTEGER PRIMARY KEY REFERENCES vector (key),
  namespace_key INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE memory_word (              -- as ``text.keywords`` knows words
  owner_key INTEGER NOT NULL, term TEXT NOT NULL, memory_key INTEGER NOT NULL,
  PRIMARY KEY (owner_key, term, memory_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE namespace (                -- the vectors of one embedder
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  dim INTEGER NOT NULL CHECK (dim > 0),
  state TEXT NOT NULL CHECK (state IN ('current', 'filling', 'old')),
  placed INTEGER NOT NULL DEFAULT 0,    -- how many vectors it has
  filled INTEGER NOT NULL DEFAULT 0,    -- chunk.key up to which no chunk is without one
  generation TEXT                       -- the file that a search in all of it begins with; NULL: none
) STRICT;

CREATE TABLE recut (                    -- turns whose chunks are made anew, while the row stands
  turn_id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE retrieval (                -- which chunks a turn's prompt held
  turn_id BLOB NOT NULL REFERENCES turn (id),
  chunk_id BLOB NOT NULL,
  session_id BLOB NOT NULL,
  similarity REAL NOT NULL,
  rank INTEGER NOT NULL,
  PRIMARY KEY (turn_id, chunk_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE uncut (                    -- turns that have ended and are to be cut, by the key of their question
  question INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE vector (                   -- that a chunk has one; a key is never given twice, so a copy of it can be old
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace_key INTEGER NOT NULL,
  chunk_key INTEGER NOT NULL REFERENCES chunk (key)
) STRICT;

CREATE TABLE vector_pack (              -- 256 of a session, by their keys; 0 where one was removed
  key INTEGER PRIMARY KEY,
  namespace_key INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  last INTEGER NOT NULL,                -- the highest of the keys: packs of a session do not overlap
  keys TEXT NOT NULL,
  bodies BLOB NOT NULL
) STRICT;

CREATE TABLE word_sample (              -- how common words are: counted in one message of many
  word TEXT PRIMARY KEY,
  places INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE word_scope (               -- how much a session or an owner has said
  token TEXT PRIMARY KEY,               -- as it stands among the words
  messages INTEGER NOT NULL,
  places INTEGER NOT NULL,
  first INTEGER NOT NULL,               -- message.key; a session that has all of its keys is searched by them
  last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE word_state (               -- one row: how far the index goes
  one INTEGER PRIMARY KEY CHECK (one = 1),
  messages INTEGER NOT NULL,
  indexed INTEGER NOT NULL,             -- messages whose words are there
  places INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  version INTEGER,                      -- of the words; NULL before the first
  renewing INTEGER,                     -- the version they are being made anew in
  made INTEGER NOT NULL,                -- done for turns whose question has a key up to this
  upto INTEGER NOT NULL,                -- needed up to this one
  epoch INTEGER NOT NULL DEFAULT 0      -- counted up when something that was read may be gone or cut anew
, stale INTEGER NOT NULL DEFAULT 0) STRICT;
