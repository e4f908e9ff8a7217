-- Facts kept across conversations: each once, with the turns that said it and the words it is found by.

CREATE TABLE memory_owner (             -- a user in an organisation
  key INTEGER PRIMARY KEY, org_id TEXT NOT NULL, user_id TEXT NOT NULL, UNIQUE (org_id, user_id)
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
CREATE INDEX memory_by_age ON memory (owner_key, created_at, id);
CREATE INDEX memory_by_hash ON memory (owner_key, hash);
CREATE INDEX memory_by_about ON memory (owner_key, about) WHERE about <> '';
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

CREATE TABLE forgotten (                -- what no turn from before may bring back: in one session, or (empty) anywhere
  owner_key INTEGER NOT NULL, hash BLOB NOT NULL, thread BLOB NOT NULL, forgotten_at INTEGER NOT NULL,
  PRIMARY KEY (owner_key, hash, thread)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER gone_memory_takes_its_words AFTER DELETE ON memory
BEGIN
  DELETE FROM memory_word WHERE memory_key = OLD.key;
  DELETE FROM memory_source WHERE memory_key = OLD.key;
END;

CREATE TRIGGER gone_memory_hands_on_what_it_replaced AFTER DELETE ON memory
WHEN OLD.superseded_by IS NOT NULL
BEGIN
  UPDATE memory SET superseded_by = OLD.superseded_by, superseded_at = OLD.superseded_at WHERE superseded_by = OLD.id;
END;

-- What nobody says any more makes nothing untrue: what it replaced holds again, of each thing what was said last.
CREATE TRIGGER memory_goes_with_its_last_source AFTER DELETE ON memory_source
WHEN NOT EXISTS (SELECT 1 FROM memory_source WHERE memory_key = OLD.memory_key)
BEGIN
  UPDATE memory SET superseded_by = then_true.id, superseded_at = then_true.valid_from
  FROM (SELECT old.key, w.id, w.valid_from FROM memory AS gone JOIN memory AS old ON old.superseded_by = gone.id
      LEFT JOIN memory AS w ON w.key = (SELECT r.key FROM memory AS r
        WHERE r.owner_key = old.owner_key AND r.about = old.about AND r.about <> '' AND r.thread = old.thread
          AND r.key NOT IN (old.key, gone.key) AND (r.superseded_by IS NULL OR (r.superseded_by = gone.id
            AND (r.valid_from, r.key) > (old.valid_from, old.key)))
        ORDER BY r.superseded_by IS NULL DESC, r.valid_from DESC, r.key DESC LIMIT 1)
    WHERE gone.key = OLD.memory_key AND gone.superseded_by IS NULL AND gone.origin <> 'person') AS then_true
  WHERE memory.key = then_true.key;
  DELETE FROM memory WHERE key = OLD.memory_key AND origin <> 'person';
END;

CREATE TRIGGER deleted_turn_takes_its_memories AFTER DELETE ON turn
BEGIN DELETE FROM memory_source WHERE turn_id = OLD.id; END;
