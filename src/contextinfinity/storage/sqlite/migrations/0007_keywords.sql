-- Words that find what was said: each message from the moment it is durable, its borrowed words and its turn's tool
-- side once the turn is cut. No release has filled the chunks before: they are made anew, with tools as a side.

CREATE INDEX turn_by_question ON turn (user_message);
CREATE INDEX turn_by_answer ON turn (answer) WHERE answer IS NOT NULL;

-- One row is 4 * message.key and: 0 the message's own words, 1 those it borrows, 2 and 3 the same of the tool side of
-- the turn that the message asks. Words are written as we know them, with a blank between; the table only looks up.
CREATE VIRTUAL TABLE keyword USING fts5 (
  words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
INSERT INTO keyword (keyword, rank) VALUES ('hashsize', 8388608);  -- bytes gathered before they are written: imports

CREATE TABLE word_scope (               -- how much a session or an owner has said
  token TEXT PRIMARY KEY,               -- as it stands among the words
  messages INTEGER NOT NULL,
  places INTEGER NOT NULL,
  first INTEGER NOT NULL,               -- message.key; a session that has all of its keys is searched by them
  last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE word_sample (              -- how common words are: counted in one message of many
  word TEXT PRIMARY KEY,
  places INTEGER NOT NULL
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
) STRICT;

CREATE TABLE uncut (                    -- turns that have ended and are to be cut, by the key of their question
  question INTEGER PRIMARY KEY
) STRICT;

INSERT INTO word_state (one, messages, indexed, places, chunks, made, upto)
SELECT 1, (SELECT count(*) FROM turn) + (SELECT count(*) FROM turn WHERE answer IS NOT NULL), 0, 0, 0, 0, 0;
INSERT INTO uncut SELECT user_message FROM turn WHERE phase IN ('Indexed', 'Done', 'Failed') ORDER BY user_message;

CREATE TRIGGER recorded_turn_is_to_be_cut AFTER INSERT ON turn
WHEN NEW.phase = 'Done'
BEGIN INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING; END;

CREATE TRIGGER ended_turn_is_to_be_cut AFTER UPDATE OF phase, answer ON turn
WHEN (NEW.phase = 'Failed' AND OLD.phase <> 'Failed')
  OR (NEW.phase = 'Indexed' AND OLD.phase = 'StateCommitted' AND NEW.degraded)
  OR (NEW.phase = 'Done' AND NEW.answer IS NOT OLD.answer)
BEGIN INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING; END;

CREATE TRIGGER deleted_turn_is_not_to_be_cut AFTER DELETE ON turn
BEGIN DELETE FROM uncut WHERE question = OLD.user_message; END;

CREATE TRIGGER deleted_message_takes_its_words AFTER DELETE ON message
BEGIN
  UPDATE word_scope SET messages = messages - 1, places = places - (
    SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE token = char(0xE100) || lower(hex(OLD.session_id));
  UPDATE word_state SET epoch = epoch + 1, messages = messages - 1,
    indexed = indexed - (SELECT count(*) FROM keyword_docsize WHERE id = 4 * OLD.key),
    places = places - (SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE one = 1;
  DELETE FROM keyword WHERE rowid IN (
    SELECT id FROM keyword_docsize WHERE id BETWEEN 4 * OLD.key AND 4 * OLD.key + 3);
END;

DROP VIEW chunks;
DROP VIEW retrievals;
DELETE FROM vector;
DROP TABLE chunk;

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
CREATE INDEX chunk_by_turn ON chunk (turn_id);

CREATE TRIGGER chunk_is_immutable BEFORE UPDATE ON chunk
BEGIN SELECT raise(ABORT, 'immutable: a chunk never changes; index the turn again'); END;

CREATE TRIGGER chunk_is_indexed_once BEFORE INSERT ON chunk
WHEN EXISTS (SELECT 1 FROM chunk WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM chunk WHERE key = NEW.key)
BEGIN SELECT raise(IGNORE); END;

-- What was said with tools stands in several steps: such a chunk is shown by its summary alone.
CREATE VIEW chunks AS
SELECT c.uuid AS id, s.uuid AS session_id, br.uuid AS branch_id, t.uuid AS source_turn,
  CASE c.side WHEN 'tool' THEN '' ELSE substr(coalesce(m.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(m.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), ''),
    c.start + 1, c.end - c.start) END AS rendered_text, c.summary,
  coalesce(em.name, '') AS embedding_model, coalesce(em.dim, 0) AS embedding_dim, coalesce(v.body, x'') AS embedding,
  c.chunk_type, c.token_est, c.content_hash,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch') AS created_at, c.side, c.start, c.end
FROM session AS s JOIN branch AS br ON br.session_id = s.id JOIN turn AS t ON t.branch_id = br.id
  JOIN chunk AS c ON c.turn_id = t.id
  JOIN message AS m ON m.key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END
  LEFT JOIN vector AS v ON v.chunk_key = c.key
    AND v.model_key = (SELECT max(model_key) FROM vector WHERE chunk_key = c.key)
  LEFT JOIN embedding_model AS em ON em.key = v.model_key;

CREATE VIEW retrievals AS
SELECT t.uuid AS turn_id, c.uuid AS chunk_id, r.similarity, r.rank
FROM retrieval AS r JOIN turn AS t ON t.id = r.turn_id JOIN chunk AS c ON c.id = r.chunk_id;
