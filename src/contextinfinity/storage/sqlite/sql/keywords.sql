-- Words: writing them, and finding by them.

-- name: insert_words
-- The words of a row.
INSERT INTO keyword (rowid, words) VALUES (?, ?)

-- name: replace_words
-- The words of a row, in the place of those that were there.
INSERT OR REPLACE INTO keyword (rowid, words) VALUES (?, ?)

-- name: delete_words
-- A row has no words any more.
DELETE FROM keyword WHERE rowid = ?

-- name: select_rows
-- Which rows have words.
SELECT id FROM keyword_docsize WHERE id IN (SELECT value FROM json_each(?))

-- name: count_scope
-- What a session or an owner has said grows.
INSERT INTO word_scope (token, messages, places, first, last) VALUES (:token, :messages, :places, :first, :last)
ON CONFLICT (token) DO UPDATE SET messages = messages + :messages, places = places + :places,
  first = min(first, :first), last = max(last, :last)

-- name: count_words
-- The index grows.
UPDATE word_state SET messages = messages + :said, indexed = indexed + :messages, places = places + :places,
  version = coalesce(version, :version) WHERE one = 1

-- name: count_sample
-- A message that is counted says a word.
INSERT INTO word_sample (word, places) VALUES (?, 1) ON CONFLICT (word) DO UPDATE SET places = places + 1

-- name: select_scope
-- How much a session or an owner has said, and between which keys.
SELECT messages, places, first, last FROM word_scope WHERE token = ?

-- name: select_places
-- How many places there are.
SELECT places FROM word_state WHERE one = 1

-- name: find_rows
-- The newest rows of a phrase between two of them, as one text: a row of SQL for each would take four times as long.
SELECT group_concat(rowid) FROM (
  SELECT rowid FROM keyword WHERE keyword MATCH :phrase AND rowid BETWEEN :first AND :last
  ORDER BY rowid DESC LIMIT :most)

-- name: find_all_rows
-- All of them; in their own order, which is the quickest.
SELECT group_concat(rowid) FROM keyword WHERE keyword MATCH :phrase AND rowid BETWEEN :first AND :last

-- name: select_asked
-- The turns that some messages ask, and whose they are; not those past their time to live.
SELECT k.value, t.id, t.session_id, t.branch_id, t.turn_seq, t.created_at, s.org_id, s.user_id
FROM json_each(?) AS k CROSS JOIN turn AS t ON t.user_message = k.value CROSS JOIN session AS s ON s.id = t.session_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_answered
-- The turns that some messages answer, and whose they are.
SELECT k.value, t.id, t.session_id, t.branch_id, t.turn_seq, t.created_at, s.org_id, s.user_id
FROM json_each(?) AS k CROSS JOIN turn AS t ON t.answer = k.value CROSS JOIN session AS s ON s.id = t.session_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: count_indexed
-- Of messages, how many have words in the index, and on how many places.
SELECT coalesce(sum(d.id % 4 = 0), 0), count(d.id) FROM json_each(:messages) AS k
  CROSS JOIN json_each('[0,2]') AS kind CROSS JOIN keyword_docsize AS d ON d.id = 4 * k.value + kind.value

-- name: shrink_scope
-- What an owner has said is less.
UPDATE word_scope SET messages = messages - :messages, places = places - :places WHERE token = :token

-- name: select_astray
-- Turns whose questions have keys between two, that have ended and wait for nothing, and of which something is missing.
SELECT t.user_message FROM turn AS t
WHERE t.user_message BETWEEN :first AND :last AND t.phase IN ('Indexed', 'Done', 'Failed')
  AND t.user_message NOT IN (SELECT question FROM uncut)
  AND (NOT EXISTS (SELECT 1 FROM keyword_docsize WHERE id = 4 * t.user_message) OR (t.answer IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM keyword_docsize WHERE id = 4 * t.answer))
    OR (NOT EXISTS (SELECT 1 FROM chunk AS c WHERE c.turn_id = t.id)
      AND EXISTS (SELECT 1 FROM message AS m WHERE m.key = t.user_message AND trim(m.text) <> '')))

-- name: select_index_state
-- How far the index goes.
SELECT messages, indexed, (SELECT count(*) FROM uncut), chunks, version FROM word_state WHERE one = 1

-- name: defer_references
-- Check references when the transaction ends: the vectors of a chunk wait for it to come back.
PRAGMA defer_foreign_keys = ON

-- name: count_chunks
-- The index grows.
UPDATE word_state SET chunks = chunks + ? WHERE one = 1

-- name: uncount_chunks
-- The index holds fewer chunks.
UPDATE word_state SET chunks = chunks - :count WHERE one = 1

-- name: delete_scope
-- Nothing was said there.
DELETE FROM word_scope WHERE token = ? AND messages <= 0
