-- Facts kept across conversations: each once, with the turns that said it and the words it is found by.

CREATE TABLE memory_owner (             -- a user in an organisation
  key INTEGER PRIMARY KEY, org_id TEXT NOT NULL, user_id TEXT NOT NULL, UNIQUE (org_id, user_id)
) STRICT;

CREATE TABLE memory (
  key INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  owner_key INTEGER NOT NULL,
  thread BLOB NOT NULL,                 -- the session whose alone it is; empty: the user's
  content TEXT NOT NULL CHECK (content <> ''),
  hash BLOB NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('self', 'preference', 'wish', 'plan', 'note')),
  about TEXT NOT NULL,                  -- what can be true once only; empty: nothing of that kind
  origin TEXT NOT NULL CHECK (origin IN ('drawn', 'asked', 'person')),
  confidence REAL NOT NULL,
  weight INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  valid_from INTEGER NOT NULL,          -- when it was last said
  valid_to INTEGER, last_placed_at INTEGER,
  superseded_by BLOB,                   -- memory.id
  namespace TEXT,                       -- who made the vector
  vector BLOB
) STRICT;
CREATE INDEX memory_by_age ON memory (owner_key, created_at, id);
CREATE INDEX memory_by_hash ON memory (owner_key, hash);
CREATE INDEX memory_by_about ON memory (owner_key, about) WHERE superseded_by IS NULL AND about <> '';
CREATE INDEX memory_standing ON memory (owner_key, thread, weight DESC, valid_from DESC) WHERE superseded_by IS NULL;
CREATE INDEX memory_by_superseder ON memory (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memory_by_use ON memory (owner_key, max(valid_from, coalesce(last_placed_at, 0)));

CREATE TABLE memory_source (            -- a turn that said it, and where
  memory_key INTEGER NOT NULL,
  turn_id BLOB NOT NULL, session_id BLOB NOT NULL, branch_id BLOB NOT NULL, turn_seq INTEGER NOT NULL,
  start INTEGER NOT NULL, end INTEGER NOT NULL, said_at INTEGER NOT NULL,
  PRIMARY KEY (memory_key, turn_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_source_by_turn ON memory_source (turn_id);

CREATE TABLE memory_word (              -- as ``text.keywords`` knows words
  owner_key INTEGER NOT NULL, term TEXT NOT NULL, memory_key INTEGER NOT NULL,
  PRIMARY KEY (owner_key, term, memory_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_word_by_memory ON memory_word (memory_key);

CREATE TABLE forgotten (                -- what no turn from before may bring back
  owner_key INTEGER NOT NULL, hash BLOB NOT NULL, forgotten_at INTEGER NOT NULL, PRIMARY KEY (owner_key, hash)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER gone_memory_takes_its_words AFTER DELETE ON memory
BEGIN
  DELETE FROM memory_word WHERE memory_key = OLD.key;
  DELETE FROM memory_source WHERE memory_key = OLD.key;
END;

CREATE TRIGGER memory_goes_with_its_last_source AFTER DELETE ON memory_source
WHEN NOT EXISTS (SELECT 1 FROM memory_source WHERE memory_key = OLD.memory_key)
BEGIN DELETE FROM memory WHERE key = OLD.memory_key; END;

CREATE TRIGGER deleted_turn_takes_its_memories AFTER DELETE ON turn
BEGIN DELETE FROM memory_source WHERE turn_id = OLD.id; END;
