-- Words and vectors in PostgreSQL.

-- name: insert_words
-- The words of a row.
INSERT INTO keyword (row, words) VALUES (?, string_to_array(?, ' '))

-- name: replace_words
-- The words of a row, in the place of those that were there.
INSERT INTO keyword (row, words) VALUES (?, string_to_array(?, ' ')) ON CONFLICT (row) DO UPDATE SET words = excluded.words

-- name: delete_words
-- A row has no words any more.
DELETE FROM keyword WHERE row = ?

-- name: select_rows
-- Which rows have words.
SELECT row FROM keyword WHERE row IN (SELECT value::bigint FROM json_each(?))

-- name: count_scope
-- What a session or an owner has said grows.
INSERT INTO word_scope AS s (token, slot, messages, places, first, last, tenant)
VALUES (:token, slot(), :messages, :places, :first, :last, (SELECT tenant FROM session WHERE id = :session_id))
ON CONFLICT (token, slot) DO UPDATE SET messages = s.messages + excluded.messages, places = s.places + excluded.places,
  first = least(s.first, excluded.first), last = greatest(s.last, excluded.last)

-- name: shrink_scope
-- What an owner has said is less.
INSERT INTO word_scope AS s (token, slot, messages, places, first, last, tenant)
VALUES (:token, slot(), - :messages::bigint, - :places::bigint, 4611686018427387904, 0,
  (SELECT tenant FROM session WHERE id = :session_id))
ON CONFLICT (token, slot) DO UPDATE SET messages = s.messages + excluded.messages, places = s.places + excluded.places

-- name: delete_scope
-- Nothing was said there.
DELETE FROM word_scope WHERE token = ?

-- name: count_words
-- The index grows.
WITH named AS (UPDATE word_state SET version = :version WHERE one = 1 AND version IS NULL)
INSERT INTO word_count AS c (slot, messages, indexed, places) VALUES (slot(), :said, :messages, :places)
ON CONFLICT (slot) DO UPDATE SET messages = c.messages + excluded.messages, indexed = c.indexed + excluded.indexed,
  places = c.places + excluded.places

-- name: count_chunks
-- The index grows.
INSERT INTO word_count AS c (slot, chunks) VALUES (slot(), ?)
ON CONFLICT (slot) DO UPDATE SET chunks = c.chunks + excluded.chunks

-- name: uncount_chunks
-- The index holds fewer chunks.
INSERT INTO word_count AS c (slot, chunks) VALUES (slot(), - :count::bigint)
ON CONFLICT (slot) DO UPDATE SET chunks = c.chunks + excluded.chunks

-- name: count_sample
-- A message that is counted says a word.
SELECT count_word(?)

-- name: unsay_sample
-- A message that was counted says a word no longer.
SELECT uncount_word(?)

-- name: delete_sample
-- Nothing: it went with its last message.
SELECT 0 WHERE ?::text IS NULL

-- name: select_scope
-- How much a session or an owner has said, and between which keys.
SELECT sum(messages)::bigint, sum(places)::bigint, min(first), max(last) FROM word_scope WHERE token = ?
HAVING sum(messages) > 0

-- name: select_places
-- How many places there are.
SELECT coalesce(sum(places), 0)::bigint FROM word_count

-- name: select_samples
-- How many of the messages that are counted say each of the words.
SELECT word, places FROM word_places(?)

-- name: select_index_state
-- How far the index goes.
SELECT coalesce(sum(messages), 0)::bigint, coalesce(sum(indexed), 0)::bigint, (SELECT count(*) FROM uncut),
  coalesce(sum(chunks), 0)::bigint, (SELECT version FROM word_state WHERE one = 1) FROM word_count

-- name: find_rows
-- The newest rows that hold all of some words, between two of them, as one text.
SELECT string_agg(row::text, ',') FROM (
  SELECT row FROM keyword WHERE words @> ARRAY(SELECT value FROM json_each(:tokens)) AND row BETWEEN :first AND :last
  ORDER BY row DESC LIMIT :most) AS found

-- name: find_all_rows
-- All of them.
SELECT string_agg(row::text, ',') FROM keyword
WHERE words @> ARRAY(SELECT value FROM json_each(:tokens)) AND row BETWEEN :first AND :last

-- name: select_asked
-- The turns that some messages ask, and whose they are; not those past their time to live.
SELECT k.value::bigint, t.id, t.session_id, t.branch_id, t.turn_seq, t.created_at, s.org_id, s.user_id
FROM json_each(?) AS k JOIN turn AS t ON t.user_message = k.value::bigint JOIN session AS s ON s.id = t.session_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_answered
-- The turns that some messages answer, and whose they are.
SELECT k.value::bigint, t.id, t.session_id, t.branch_id, t.turn_seq, t.created_at, s.org_id, s.user_id
FROM json_each(?) AS k JOIN turn AS t ON t.answer = k.value::bigint JOIN session AS s ON s.id = t.session_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: count_indexed
-- Of messages, how many have words in the index, and on how many places.
SELECT count(*) FILTER (WHERE d.row % 4 = 0), count(*) FROM json_each(:messages) AS k
  JOIN keyword AS d ON d.row IN (4 * k.value::bigint, 4 * k.value::bigint + 2)

-- name: delete_borrowed
-- The words that the messages of a turn borrow, and its tool side.
DELETE FROM keyword WHERE row IN (4 * :question + 1, 4 * :question + 3, 4 * coalesce(:answer, :question) + 1)

-- name: select_astray
-- Turns whose questions have keys between two, that have ended and wait for nothing, and of which something is missing.
SELECT t.user_message FROM turn AS t
WHERE t.user_message BETWEEN :first AND :last AND t.phase IN ('Indexed', 'Done', 'Failed')
  AND t.user_message NOT IN (SELECT question FROM uncut)
  AND (NOT EXISTS (SELECT 1 FROM keyword WHERE row = 4 * t.user_message) OR (t.answer IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM keyword WHERE row = 4 * t.answer))
    OR (NOT EXISTS (SELECT 1 FROM chunk AS c WHERE c.turn_id = t.id)
      AND EXISTS (SELECT 1 FROM message AS m WHERE m.key = t.user_message AND trim(m.text) <> '')))

-- name: lock_namespace
-- Vectors of a namespace get their keys one transaction after the other: what is committed later has higher keys.
SELECT pg_advisory_xact_lock(hashtextextended('contextinfinity.namespace', ?))

-- name: insert_vector
-- One a chunk and namespace.
INSERT INTO vector (namespace_key, chunk_key, session_id, body) VALUES (?, ?, ?, ?)
ON CONFLICT (chunk_key, namespace_key) DO NOTHING RETURNING key

-- name: select_vectors
-- The vectors of chunks, by their ids in hex.
SELECT j.key, v.body FROM json_each(:chunks) AS j JOIN chunk AS c ON c.id = unhex(j.value)
  JOIN vector AS v ON v.chunk_key = c.key AND v.namespace_key = :namespace

-- name: delete_vectors_of_chunk
-- All vectors of a chunk.
DELETE FROM vector WHERE chunk_key = ? RETURNING namespace_key

-- name: delete_old_vectors
-- Some vectors of a namespace.
DELETE FROM vector WHERE key IN (SELECT key FROM vector WHERE namespace_key = ? LIMIT ?) RETURNING key

-- name: lower_filled
-- A chunk has lost its vector: the next one of its number may have none.
UPDATE namespace SET filled = least(filled, :chunk - 1) WHERE key = :key

-- name: select_vectors_of_session
-- Vectors of a session with a key above one.
SELECT key, body FROM vector WHERE namespace_key = :namespace AND session_id = :session AND key > :after ORDER BY key

-- name: select_vectors_of_owner
-- Vectors of an owner with a key above one.
SELECT v.key, v.body FROM session AS s JOIN vector AS v
  ON v.namespace_key = :namespace AND v.session_id = s.id AND v.key > :after
WHERE s.org_id = :org_id AND s.user_id = :user_id ORDER BY v.key

-- name: select_all_vectors
-- All vectors with a key above one.
SELECT key, body FROM vector WHERE namespace_key = :namespace AND key > :after ORDER BY key

-- name: select_vector_block
-- Some vectors with a key above one, the oldest first.
SELECT key, body FROM vector WHERE namespace_key = :namespace AND key > :after ORDER BY key LIMIT :limit

-- name: count_vectors_of_owner
-- How many vectors an owner has, up to a number.
SELECT count(*) FROM (SELECT 1 FROM session AS s JOIN vector AS v ON v.namespace_key = :namespace AND v.session_id = s.id
  WHERE s.org_id = :org_id AND s.user_id = :user_id LIMIT :limit) AS counted

-- name: select_found
-- Whose vectors these are, in their order; those that are gone, or past their time to live, are left out.
SELECT v.key, c.id, c.turn_id, c.side, c.chunk_type, s.org_id, s.user_id, NULL, NULL, NULL
FROM json_each(:keys) AS j JOIN vector AS v ON v.key = j.value::bigint JOIN chunk AS c ON c.key = v.chunk_key
  JOIN session AS s ON s.id = c.session_id
WHERE (s.ttl_hours IS NULL OR (SELECT t.created_at FROM turn AS t WHERE t.id = c.turn_id) + s.ttl_hours * 3600000
    > unixepoch('subsec') * 1000) AND s.id NOT IN (SELECT session_id FROM deletion) ORDER BY j.key

-- name: select_found_where
-- The same with the place in their branch.
SELECT v.key, c.id, c.turn_id, c.side, c.chunk_type, s.org_id, s.user_id, t.branch_id, t.turn_seq, NULL
FROM json_each(:keys) AS j JOIN vector AS v ON v.key = j.value::bigint JOIN chunk AS c ON c.key = v.chunk_key
  JOIN session AS s ON s.id = c.session_id JOIN turn AS t ON t.id = c.turn_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion) ORDER BY j.key

-- name: select_found_where_and_when
-- The same with the time when it was said, also where that was elsewhere.
SELECT v.key, c.id, c.turn_id, c.side, c.chunk_type, s.org_id, s.user_id, t.branch_id, t.turn_seq,
  coalesce((SELECT min(o.said_at) FROM origin AS o
    WHERE o.message_key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END), t.created_at)
FROM json_each(:keys) AS j JOIN vector AS v ON v.key = j.value::bigint JOIN chunk AS c ON c.key = v.chunk_key
  JOIN session AS s ON s.id = c.session_id JOIN turn AS t ON t.id = c.turn_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion) ORDER BY j.key

-- name: select_namespaces
-- All of them, the current one first.
SELECT n.key, n.name, n.dim, n.state, coalesce((SELECT sum(c.placed) FROM vector_count AS c WHERE c.namespace_key = n.key),
  0)::bigint, n.filled, n.generation FROM namespace AS n ORDER BY n.state <> 'current', n.key

-- name: select_namespace
-- One by its name.
SELECT n.key, n.name, n.dim, n.state, coalesce((SELECT sum(c.placed) FROM vector_count AS c WHERE c.namespace_key = n.key),
  0)::bigint, n.filled, n.generation FROM namespace AS n WHERE n.name = ?

-- name: count_placed
-- More or fewer vectors than before.
INSERT INTO vector_count AS c (namespace_key, slot, placed) VALUES (:key, slot(), :change)
ON CONFLICT (namespace_key, slot) DO UPDATE SET placed = c.placed + excluded.placed

-- name: select_old
-- A namespace that is searched no more.
SELECT n.key, (SELECT count(*) FROM vector AS v WHERE v.namespace_key = n.key)
FROM namespace AS n WHERE n.state = 'old' ORDER BY n.key LIMIT 1

-- name: delete_namespace
-- Nothing is left of it.
DELETE FROM namespace AS n WHERE n.key = ? AND NOT EXISTS (SELECT 1 FROM vector AS v WHERE v.namespace_key = n.key)

-- name: select_tenant_of_owner
-- The tenant of an owner's rows.
SELECT tenant::text FROM session WHERE org_id = ? AND user_id = ? LIMIT 1
