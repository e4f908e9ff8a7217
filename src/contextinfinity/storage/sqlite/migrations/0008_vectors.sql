-- Vectors by namespace: one a chunk and embedder, packed by session, with a file beside the ledger where there are many.
-- No release ever wrote a vector, so the tables of the first shape go.

DROP VIEW chunks;
DROP TABLE vector;
DROP TABLE embedding_model;

CREATE TABLE namespace (                -- the vectors of one embedder
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  dim INTEGER NOT NULL CHECK (dim > 0),
  state TEXT NOT NULL CHECK (state IN ('current', 'filling', 'old')),
  placed INTEGER NOT NULL DEFAULT 0,    -- how many vectors it has
  filled INTEGER NOT NULL DEFAULT 0,    -- chunk.key up to which no chunk is without one
  generation TEXT                       -- the file that a search in all of it begins with; NULL: none
) STRICT;
CREATE UNIQUE INDEX one_current_namespace ON namespace (state) WHERE state = 'current';

CREATE TABLE vector (                   -- that a chunk has one; a key is never given twice, so a copy of it can be old
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace_key INTEGER NOT NULL,
  chunk_key INTEGER NOT NULL REFERENCES chunk (key)
) STRICT;
CREATE UNIQUE INDEX vector_once ON vector (chunk_key, namespace_key);

CREATE TABLE loose_vector (             -- the newest of a session: a 32-bit scale, then a signed byte a number
  key INTEGER PRIMARY KEY REFERENCES vector (key),
  namespace_key INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX loose_vector_by_session ON loose_vector (namespace_key, session_id);

CREATE TABLE vector_pack (              -- 256 of a session, by their keys; 0 where one was removed
  key INTEGER PRIMARY KEY,
  namespace_key INTEGER NOT NULL,
  session_id BLOB NOT NULL,
  last INTEGER NOT NULL,                -- the highest of the keys: packs of a session do not overlap
  keys TEXT NOT NULL,
  bodies BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX vector_pack_by_session ON vector_pack (namespace_key, session_id, last);
CREATE INDEX vector_pack_by_last ON vector_pack (namespace_key, last);

CREATE VIEW chunks AS
SELECT c.uuid AS id, s.uuid AS session_id, br.uuid AS branch_id, t.uuid AS source_turn,
  CASE c.side WHEN 'tool' THEN '' ELSE substr(coalesce(m.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(m.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), ''),
    c.start + 1, c.end - c.start) END AS rendered_text, c.summary,
  CASE WHEN v.key IS NULL THEN '' ELSE n.name END AS embedding_model,
  CASE WHEN v.key IS NULL THEN 0 ELSE n.dim END AS embedding_dim,
  coalesce((SELECT l.body FROM loose_vector AS l WHERE l.key = v.key),
    (SELECT (SELECT substr(p.bodies, 1 + b.key * (n.dim + 4), n.dim + 4) FROM json_each(p.keys) AS b
      WHERE b.value = v.key) FROM vector_pack AS p
    WHERE p.namespace_key = n.key AND p.session_id = c.session_id AND p.last >= v.key ORDER BY p.last LIMIT 1),
    x'') AS embedding,
  c.chunk_type, c.token_est, c.content_hash,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch') AS created_at, c.side, c.start, c.end
FROM session AS s JOIN branch AS br ON br.session_id = s.id JOIN turn AS t ON t.branch_id = br.id
  JOIN chunk AS c ON c.turn_id = t.id
  JOIN message AS m ON m.key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END
  LEFT JOIN namespace AS n ON n.state = 'current'
  LEFT JOIN vector AS v ON v.chunk_key = c.key AND v.namespace_key = n.key;

CREATE TABLE recut (                    -- turns whose chunks are made anew, while the row stands
  turn_id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TRIGGER chunk_stays BEFORE DELETE ON chunk
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
  AND NOT EXISTS (SELECT 1 FROM recut WHERE turn_id = OLD.turn_id)
BEGIN SELECT raise(ABORT, 'immutable: a chunk goes with its session, or when its turn is cut anew'); END;

CREATE TRIGGER recut_turn_is_read_anew AFTER DELETE ON recut
BEGIN UPDATE word_state SET epoch = epoch + 1 WHERE one = 1; END;
