-- Where messages came from that were said elsewhere: what an import knows them again by, and what they were called.

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
CREATE INDEX origin_by_mark ON origin (mark) WHERE mark IS NOT NULL;
CREATE INDEX origin_by_place ON origin (session_id, place);

CREATE TRIGGER origin_is_immutable BEFORE UPDATE ON origin
BEGIN SELECT raise(ABORT, 'immutable: where a message came from never changes'); END;

CREATE TRIGGER origin_is_noted_once BEFORE INSERT ON origin
WHEN EXISTS (SELECT 1 FROM origin WHERE message_key = NEW.message_key AND place = NEW.place)
  OR EXISTS (SELECT 1 FROM origin
    WHERE mark = NEW.mark AND session_id = NEW.session_id AND external_id = NEW.external_id)
BEGIN SELECT raise(ABORT, 'immutable: that origin is there already'); END;

CREATE TRIGGER origin_stays BEFORE DELETE ON origin
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: an origin is deleted only with a deletion of its session'); END;
