-- Vectors, their packs and namespaces.

-- name: insert_vector
-- One a chunk and namespace.
INSERT INTO vector (namespace_key, chunk_key) VALUES (?, ?) ON CONFLICT (chunk_key, namespace_key) DO NOTHING
RETURNING key

-- name: insert_loose
-- A vector on its own.
INSERT INTO loose_vector (key, namespace_key, session_id, body) VALUES (?, ?, ?, ?)

-- name: count_loose
-- How many of a session are on their own.
SELECT count(*) FROM loose_vector WHERE namespace_key = ? AND session_id = ?

-- name: delete_loose
-- Those of a session go into a pack.
DELETE FROM loose_vector WHERE namespace_key = ? AND session_id = ? RETURNING key, body

-- name: insert_pack
-- Many in one row.
INSERT INTO vector_pack (namespace_key, session_id, last, keys, bodies) VALUES (?, ?, ?, ?, ?)

-- name: select_vectors
-- The vectors of chunks, by their ids in hex, and where to look for them, by their age.
SELECT j.key, v.key, c.session_id, l.body FROM json_each(:chunks) AS j CROSS JOIN chunk AS c ON c.id = unhex(j.value)
  CROSS JOIN vector AS v ON v.chunk_key = c.key AND v.namespace_key = :namespace
  LEFT JOIN loose_vector AS l ON l.key = v.key
ORDER BY v.key

-- name: select_pack_of
-- The pack that holds a vector.
SELECT key, keys, bodies FROM vector_pack WHERE namespace_key = ? AND session_id = ? AND last >= ? ORDER BY last LIMIT 1

-- name: select_vectors_of_chunk
-- All vectors of a chunk.
SELECT v.key, v.namespace_key, n.dim, c.session_id FROM vector AS v JOIN namespace AS n ON n.key = v.namespace_key
  JOIN chunk AS c ON c.key = v.chunk_key
WHERE v.chunk_key = ?

-- name: delete_loose_vector
-- One that is on its own.
DELETE FROM loose_vector WHERE key = ? RETURNING key

-- name: delete_vector
-- A chunk has it no longer.
DELETE FROM vector WHERE key = ?

-- name: update_pack
-- A pack without one of its vectors.
UPDATE vector_pack SET keys = :keys, bodies = :bodies WHERE key = :key

-- name: delete_pack
-- A pack with nothing left in it.
DELETE FROM vector_pack WHERE key = ?

-- name: delete_old_pack
-- One pack of it.
DELETE FROM vector_pack WHERE key = (SELECT key FROM vector_pack WHERE namespace_key = ? LIMIT 1) RETURNING keys

-- name: delete_old_loose
-- Some of what is on its own there.
DELETE FROM loose_vector WHERE key IN (SELECT key FROM loose_vector WHERE namespace_key = ? LIMIT ?) RETURNING key

-- name: select_packs_of_session
-- Packs of a session with something newer than a key.
SELECT keys, bodies FROM vector_pack WHERE namespace_key = :namespace AND session_id = :session AND last > :after

-- name: select_loose_of_session
-- The same, on their own.
SELECT key, body FROM loose_vector WHERE namespace_key = :namespace AND session_id = :session AND key > :after

-- name: select_packs
-- Packs with something newer than a key, in the order of their last.
SELECT keys, bodies FROM vector_pack WHERE namespace_key = :namespace AND last > :after ORDER BY last

-- name: select_loose
-- The same, on their own.
SELECT key, body FROM loose_vector WHERE key > :after AND +namespace_key = :namespace

-- name: select_packs_of_owner
-- All packs of an owner.
SELECT p.keys, p.bodies FROM session AS s CROSS JOIN vector_pack AS p
  ON p.namespace_key = :namespace AND p.session_id = s.id AND p.last > :after
WHERE s.org_id = :org_id AND s.user_id = :user_id

-- name: select_loose_of_owner
-- The same, on their own.
SELECT l.key, l.body FROM session AS s CROSS JOIN loose_vector AS l
  ON l.namespace_key = :namespace AND l.session_id = s.id AND l.key > :after
WHERE s.org_id = :org_id AND s.user_id = :user_id

-- name: select_newer_packs_of_owner
-- Packs of an owner with something newer than a key: few, so they are looked for by their age.
SELECT p.keys, p.bodies FROM vector_pack AS p CROSS JOIN session AS s ON s.id = p.session_id
WHERE p.namespace_key = :namespace AND p.last > :after AND s.org_id = :org_id AND s.user_id = :user_id

-- name: select_newer_loose_of_owner
-- The same, on their own.
SELECT l.key, l.body FROM loose_vector AS l CROSS JOIN session AS s ON s.id = l.session_id
WHERE l.key > :after AND +l.namespace_key = :namespace AND s.org_id = :org_id AND s.user_id = :user_id

-- name: count_packs_of_owner
-- How many packs an owner has, up to a number.
SELECT count(*) FROM (SELECT 1 FROM session AS s CROSS JOIN vector_pack AS p INDEXED BY vector_pack_by_session
    ON p.namespace_key = :namespace AND p.session_id = s.id
  WHERE s.org_id = :org_id AND s.user_id = :user_id LIMIT :limit)

-- name: count_loose_of_owner
-- The same, on their own.
SELECT count(*) FROM (SELECT 1 FROM session AS s CROSS JOIN loose_vector AS l
    ON l.namespace_key = :namespace AND l.session_id = s.id
  WHERE s.org_id = :org_id AND s.user_id = :user_id LIMIT :limit)

-- name: select_newest_vector
-- The highest key of all; whatever comes gets a higher one.
SELECT coalesce(max(key), 0) FROM vector

-- name: count_newer
-- How many of a namespace have a higher key.
SELECT count(*) FROM vector WHERE key > :after AND namespace_key = :namespace

-- name: select_loose_block
-- Some loose ones between two keys, each like a pack of one.
SELECT key, '[' || key || ']', body FROM loose_vector WHERE key > :after AND key <= :last AND +namespace_key = :namespace
ORDER BY key LIMIT :limit

-- name: select_pack_block
-- Some packs past one of them; those that are made while this goes on hold nothing that was not loose before.
SELECT key, keys, bodies FROM vector_pack WHERE key > :after AND +namespace_key = :namespace
ORDER BY key LIMIT :limit

-- name: select_found
-- Whose vectors these are, in their order; those that are gone, or past their time to live, are left out.
SELECT j.value, c.id, c.turn_id, c.side, c.chunk_type, s.org_id, s.user_id, NULL, NULL, NULL
FROM json_each(:keys) AS j CROSS JOIN vector AS v ON v.key = j.value CROSS JOIN chunk AS c ON c.key = v.chunk_key
  CROSS JOIN session AS s ON s.id = c.session_id
WHERE (s.ttl_hours IS NULL OR (SELECT t.created_at FROM turn AS t WHERE t.id = c.turn_id) + s.ttl_hours * 3600000
    > unixepoch('subsec') * 1000) AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_found_where
-- The same with the place in their branch.
SELECT j.value, c.id, c.turn_id, c.side, c.chunk_type, s.org_id, s.user_id, t.branch_id, t.turn_seq, NULL
FROM json_each(:keys) AS j CROSS JOIN vector AS v ON v.key = j.value CROSS JOIN chunk AS c ON c.key = v.chunk_key
  CROSS JOIN session AS s ON s.id = c.session_id CROSS JOIN turn AS t ON t.id = c.turn_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_found_where_and_when
-- The same with the time when it was said, also where that was elsewhere.
SELECT j.value, c.id, c.turn_id, c.side, c.chunk_type, s.org_id, s.user_id, t.branch_id, t.turn_seq,
  coalesce((SELECT min(o.said_at) FROM origin AS o
    WHERE o.message_key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END), t.created_at)
FROM json_each(:keys) AS j CROSS JOIN vector AS v ON v.key = j.value CROSS JOIN chunk AS c ON c.key = v.chunk_key
  CROSS JOIN session AS s ON s.id = c.session_id CROSS JOIN turn AS t ON t.id = c.turn_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)
