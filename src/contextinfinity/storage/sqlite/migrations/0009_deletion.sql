-- Deleting: what is to go and when, what it leaves behind, and a chat log that can be written to.

CREATE TABLE expiry (                   -- sessions with a time to live, and when next to look at each
  session_id BLOB PRIMARY KEY,
  ttl INTEGER NOT NULL,                 -- milliseconds
  due INTEGER NOT NULL                  -- nothing of it expires before
) STRICT, WITHOUT ROWID;
CREATE INDEX expiry_by_due ON expiry (due);

ALTER TABLE tombstone ADD COLUMN org_id TEXT;
ALTER TABLE tombstone ADD COLUMN user_id TEXT;  -- whose session it was: nobody else's can have its id

CREATE INDEX tombstone_by_session ON tombstone (session_id, kind, seq);

CREATE TABLE loose_text (               -- texts that something deleted referred to: to be removed if nothing else does
  key INTEGER PRIMARY KEY,
  personal INTEGER NOT NULL,            -- 1: nobody else is about to refer to it
  session_id BLOB                       -- whose plans do not count: it repeats what was deleted there
) STRICT;

ALTER TABLE word_state ADD COLUMN stale INTEGER NOT NULL DEFAULT 0;
-- 1: the index still holds words of what was deleted, 2: it is being written anew without them

INSERT INTO expiry
SELECT s.id, CAST(min(s.ttl_hours, 8760000.0) * 3600000 AS INTEGER),
  coalesce((SELECT min(t.created_at) FROM branch AS b JOIN turn AS t ON t.branch_id = b.id WHERE b.session_id = s.id),
    s.created_at) + CAST(min(s.ttl_hours, 8760000.0) * 3600000 AS INTEGER)
FROM session AS s WHERE s.ttl_hours IS NOT NULL;

CREATE TRIGGER session_will_expire AFTER INSERT ON session
WHEN NEW.ttl_hours IS NOT NULL
BEGIN
  INSERT INTO expiry VALUES (NEW.id, CAST(min(NEW.ttl_hours, 8760000.0) * 3600000 AS INTEGER),
    NEW.created_at + CAST(min(NEW.ttl_hours, 8760000.0) * 3600000 AS INTEGER));
END;

CREATE TRIGGER older_turn_expires_sooner AFTER INSERT ON turn
BEGIN
  UPDATE expiry SET due = NEW.created_at + ttl WHERE session_id = NEW.session_id AND due > NEW.created_at + ttl;
END;

CREATE TRIGGER deleted_session_does_not_expire AFTER DELETE ON session
BEGIN DELETE FROM expiry WHERE session_id = OLD.id; END;

CREATE TRIGGER deleted_session_stays_its_owners BEFORE INSERT ON session
WHEN EXISTS (SELECT 1 FROM tombstone AS d WHERE d.id = NEW.id AND d.kind = 'session' AND d.user_id IS NOT NULL
  AND (d.org_id, d.user_id) <> (NEW.org_id, NEW.user_id))
BEGIN SELECT raise(ABORT, 'user_id: a session of that id was another user''s'); END;

CREATE TRIGGER tombstone_stays BEFORE DELETE ON tombstone
BEGIN SELECT raise(ABORT, 'immutable: that something was deleted is never forgotten'); END;

-- A summary of what is deleted goes, and covers no more than what is gone; all else of a state stays as it is.
DROP TRIGGER state_is_immutable;
CREATE TRIGGER state_is_immutable BEFORE UPDATE ON state
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
  OR NEW.summary IS NOT NULL OR NEW.covers_turn_seq > OLD.covers_turn_seq
  OR (NEW.id, NEW.session_id, NEW.branch_id, NEW.state_seq, NEW.parent_id, NEW.turn_seq, NEW.reason, NEW.pins,
    NEW.created_at, NEW.schema_version) IS NOT (OLD.id, OLD.session_id, OLD.branch_id, OLD.state_seq, OLD.parent_id,
    OLD.turn_seq, OLD.reason, OLD.pins, OLD.created_at, OLD.schema_version)
BEGIN SELECT raise(ABORT, 'immutable: a state never changes; commit a new one'); END;

DROP INDEX state_by_fold;
CREATE INDEX state_by_fold ON state (branch_id, state_seq, covers_turn_seq, reason)
WHERE reason IN ('fold', 'unfold', 'delete');

DROP TRIGGER deleted_message_takes_its_words;
CREATE TRIGGER deleted_message_takes_its_words AFTER DELETE ON message
BEGIN
  UPDATE word_scope SET messages = messages - (SELECT count(*) FROM keyword_docsize WHERE id = 4 * OLD.key),
    places = places - (SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE token = char(0xE100) || lower(hex(OLD.session_id));
  UPDATE word_state SET epoch = epoch + 1, stale = 1, messages = messages - 1,
    indexed = indexed - (SELECT count(*) FROM keyword_docsize WHERE id = 4 * OLD.key),
    places = places - (SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE one = 1;
  DELETE FROM keyword WHERE rowid IN (
    SELECT id FROM keyword_docsize WHERE id BETWEEN 4 * OLD.key AND 4 * OLD.key + 3);
END;

-- In a session of kind chat a turn that was finished elsewhere says something on both sides.
CREATE TABLE blank_sign (               -- what shows nothing: what Unicode calls white space, and signs that are not seen
  signs TEXT NOT NULL
) STRICT;
INSERT INTO blank_sign VALUES (char(
  9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 133, 160, 173, 847, 1564, 4447, 4448, 5760, 6068, 6069, 6158, 8192,
  8193, 8194, 8195, 8196, 8197, 8198, 8199, 8200, 8201, 8202, 8203, 8204, 8205, 8206, 8207, 8232, 8233, 8234,
  8235, 8236, 8237, 8238, 8239, 8287, 8288, 8289, 8290, 8291, 8292, 8294, 8295, 8296, 8297, 8298, 8299, 8300,
  8301, 8302, 8303, 10240, 12288, 12644, 65024, 65025, 65026, 65027, 65028, 65029, 65030, 65031, 65032, 65033,
  65034, 65035, 65036, 65037, 65038, 65039, 65279, 65440));

CREATE TRIGGER chat_turn_is_not_blank BEFORE INSERT ON turn
WHEN NEW.phase = 'Done' AND EXISTS (SELECT 1 FROM session WHERE id = NEW.session_id AND kind = 'chat')
  AND (NEW.answer IS NULL OR EXISTS (SELECT 1 FROM message AS m, blank_sign AS b
    WHERE m.key IN (NEW.user_message, NEW.answer) AND m.text IS NOT NULL
      AND (trim(m.text, b.signs) = '' OR trim(hex(m.text), '0') = '')))
BEGIN SELECT raise(ABORT, 'blank: a chat turn has a query and a response, neither of them blank'); END;

-- What is past its time is not in the chat log, whether or not it was cleaned up.
DROP VIEW conversation_turns;
CREATE VIEW conversation_turns AS
SELECT t.uuid AS id, s.uuid AS session_id, s.user_id, t.turn_seq AS turn_number,
  coalesce(q.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(q.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '') AS query_text,
  coalesce(a.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(a.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '') AS response_text,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
  coalesce(t.metadata, '{}') AS metadata
FROM session AS s JOIN branch AS br ON br.session_id = s.id AND br.parent_id IS NULL
  JOIN turn AS t ON t.branch_id = br.id
  JOIN message AS q ON q.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
  LEFT JOIN expiry AS e ON e.session_id = s.id
WHERE e.ttl IS NULL OR t.created_at + e.ttl > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

-- The chat log takes rows: whatever writes them, they are turns like all others.
CREATE TABLE hex_byte (                 -- SQLite before 3.41 cannot read hexadecimal by itself
  pair TEXT PRIMARY KEY,
  byte BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO hex_byte
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 255)
SELECT printf('%02x', n), substr(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', n + 1, 1) FROM number;

CREATE TRIGGER conversation_turns_are_written INSTEAD OF INSERT ON conversation_turns
BEGIN
  SELECT raise(ABORT, 'session_id: it must be a UUID in lower case with hyphens')
  WHERE NEW.session_id IS NULL OR NOT (length(NEW.session_id) = 36 AND substr(NEW.session_id, 9, 1) || substr(NEW.session_id, 14, 1) || substr(NEW.session_id, 19, 1) || substr(NEW.session_id, 24, 1)
    = '----' AND length(replace(NEW.session_id, '-', '')) = 32 AND replace(NEW.session_id, '-', '') NOT GLOB '*[^0-9a-f]*');
  SELECT raise(ABORT, 'id: it must be a UUID in lower case with hyphens')
  WHERE NEW.id IS NOT NULL AND NOT (length(NEW.id) = 36 AND substr(NEW.id, 9, 1) || substr(NEW.id, 14, 1) || substr(NEW.id, 19, 1) || substr(NEW.id, 24, 1)
    = '----' AND length(replace(NEW.id, '-', '')) = 32 AND replace(NEW.id, '-', '') NOT GLOB '*[^0-9a-f]*');
  SELECT raise(ABORT, 'user_id: it must have 1 to 128 characters')
  WHERE coalesce(length(NEW.user_id), 0) NOT BETWEEN 1 AND 128;
  SELECT raise(ABORT, 'user_id: the session is another user''s')
  WHERE EXISTS (SELECT 1 FROM session WHERE uuid = NEW.session_id AND user_id <> NEW.user_id);
  SELECT raise(ABORT, 'query_text: it must not be blank') FROM blank_sign
  WHERE trim(coalesce(NEW.query_text, ''), signs) = '' OR trim(hex(NEW.query_text), '0') = '';
  SELECT raise(ABORT, 'query_text: it has more than 1,000,000 characters') WHERE length(NEW.query_text) > 1000000;
  SELECT raise(ABORT, 'response_text: it must not be blank') FROM blank_sign
  WHERE trim(coalesce(NEW.response_text, ''), signs) = '' OR trim(hex(NEW.response_text), '0') = '';
  SELECT raise(ABORT, 'response_text: it has more than 1,000,000 characters') WHERE length(NEW.response_text) > 1000000;
  SELECT raise(ABORT, 'metadata: it must be a JSON object')
  WHERE NEW.metadata IS NOT NULL AND NOT CASE WHEN json_valid(NEW.metadata) THEN json_type(NEW.metadata) = 'object' END;
  SELECT raise(ABORT, 'created_at: it must be a time in ISO 8601')
  WHERE NEW.created_at IS NOT NULL AND julianday(NEW.created_at) IS NULL;
  SELECT raise(ABORT, 'turn_number: it must be a whole number over 0, at most 1,000,000,000')
  WHERE NEW.turn_number IS NOT NULL
    AND (typeof(NEW.turn_number) <> 'integer' OR NEW.turn_number NOT BETWEEN 1 AND 1000000000);

  INSERT INTO session (id, org_id, user_id, kind, ttl_hours, active_branch, created_at, updated_at)
  SELECT CAST(
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 1, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 3, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 5, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 7, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 10, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 12, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 15, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 17, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 20, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 22, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 25, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 27, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 29, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 31, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 33, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 35, 2)) AS BLOB),
    '', NEW.user_id, 'chat', 24.0, randomblob(16), CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  WHERE NOT EXISTS (SELECT 1 FROM session WHERE uuid = NEW.session_id);
  INSERT INTO state (id, session_id, branch_id, state_seq, turn_seq, covers_turn_seq, reason, token_count_est,
    created_at, schema_version)
  SELECT randomblob(16), s.id, s.active_branch, 0, 0, 0, 'root', 0, s.created_at, 1 FROM session AS s
  WHERE s.uuid = NEW.session_id AND NOT EXISTS (SELECT 1 FROM branch WHERE id = s.active_branch);
  INSERT INTO branch (id, session_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label, created_at)
  SELECT s.active_branch, s.id, 0, st.id, st.id, 0, coalesce(
    (SELECT max(seq) FROM tombstone WHERE session_id = s.id AND kind = 'turn'), 0), 'main', s.created_at
  FROM session AS s JOIN state AS st ON st.branch_id = s.active_branch AND st.state_seq = 0
  WHERE s.uuid = NEW.session_id AND NOT EXISTS (SELECT 1 FROM branch WHERE id = s.active_branch);

  SELECT raise(ABORT, 'turn_number: the session has a turn of that number')
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN turn AS t ON t.branch_id = b.id AND t.turn_seq = NEW.turn_number WHERE s.uuid = NEW.session_id;
  SELECT raise(ABORT, 'turn_number: a turn of that number was deleted, or stands in a summary; numbers are not reused')
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN state AS head ON head.id = b.head_state
  WHERE s.uuid = NEW.session_id AND (NEW.turn_number <= head.covers_turn_seq OR EXISTS (SELECT 1 FROM tombstone AS d
    WHERE d.session_id = s.id AND d.kind = 'turn' AND d.seq = NEW.turn_number));
  SELECT raise(ABORT, 'session_id: a turn of this session is being answered, or the session is being deleted')
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
  WHERE s.uuid = NEW.session_id AND (EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
    OR EXISTS (SELECT 1 FROM turn AS t WHERE t.branch_id = b.id AND t.phase NOT IN ('Done', 'Failed')
      AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding', 'ResponseFinalized')));

  INSERT INTO message (session_id, role, text, content_hash)
  SELECT id, 'user', NEW.query_text, x'' FROM session WHERE uuid = NEW.session_id;
  INSERT INTO message (session_id, role, text, content_hash)
  SELECT id, 'assistant', NEW.response_text, x'' FROM session WHERE uuid = NEW.session_id;
  UPDATE word_state SET messages = messages + 2 WHERE one = 1;
  INSERT INTO state (id, session_id, branch_id, state_seq, parent_id, turn_seq, covers_turn_seq, reason, summary, pins,
    token_count_est, created_at, schema_version)
  SELECT randomblob(16), s.id, b.id, b.head_seq + 1, head.id,
    max(b.last_turn_seq, coalesce(NEW.turn_number, b.last_turn_seq + 1)), head.covers_turn_seq, 'record', head.summary,
    head.pins, head.token_count_est, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
    head.schema_version
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN state AS head ON head.id = b.head_state WHERE s.uuid = NEW.session_id;
  INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, outcome, state_before, state_after, user_message, answer,
    metadata, created_at, updated_at)
  SELECT CASE WHEN NEW.id IS NULL THEN randomblob(16) ELSE CAST(
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 1, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 3, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 5, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 7, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 10, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 12, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 15, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 17, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 20, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 22, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 25, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 27, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 29, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 31, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 33, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 35, 2)) AS BLOB) END,
    s.id, b.id, coalesce(NEW.turn_number, b.last_turn_seq + 1), 'Done', 'completed', b.head_state, st.id,
    (SELECT max(key) - 1 FROM message), (SELECT max(key) FROM message), json(NEW.metadata),
    CAST(round((min(julianday('now'), coalesce(julianday(NEW.created_at), julianday('now'))) - 2440587.5) * 86400000)
      AS INTEGER),
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN state AS st ON st.branch_id = b.id AND st.state_seq = b.head_seq + 1 WHERE s.uuid = NEW.session_id;
  UPDATE branch SET (head_state, head_seq, last_turn_seq) = (
    SELECT st.id, st.state_seq, st.turn_seq FROM state AS st
    WHERE st.branch_id = branch.id AND st.state_seq = branch.head_seq + 1)
  WHERE parent_id IS NULL AND session_id = (SELECT id FROM session WHERE uuid = NEW.session_id);
  UPDATE session SET updated_at = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  WHERE uuid = NEW.session_id;
END;
