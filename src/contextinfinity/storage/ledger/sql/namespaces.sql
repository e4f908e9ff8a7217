-- Namespaces of vectors.

-- name: select_namespaces
-- All of them, the current one first.
SELECT key, name, dim, state, placed, filled, generation FROM namespace ORDER BY state <> 'current', key

-- name: select_namespace
-- One by its name.
SELECT key, name, dim, state, placed, filled, generation FROM namespace WHERE name = ?

-- name: insert_namespace
-- Another one: current if none is yet.
INSERT INTO namespace (name, dim, state)
VALUES (?, ?, CASE WHEN EXISTS (SELECT 1 FROM namespace WHERE state = 'current') THEN 'filling' ELSE 'current' END)

-- name: refill_namespace
-- An old one is wanted again: what is missing of it is looked for from the start.
UPDATE namespace SET state = 'filling', filled = 0 WHERE key = ? AND state = 'old'

-- name: retire_namespaces
-- Whatever there is is old, before another one is current.
UPDATE namespace SET state = 'old' WHERE key <> ?

-- name: make_current
-- The one to be searched from now on.
UPDATE namespace SET state = 'current' WHERE key = ?

-- name: count_placed
-- More or fewer vectors than before.
UPDATE namespace SET placed = placed + :change WHERE key = :key

-- name: set_filled
-- Up to which chunk it has everything.
UPDATE namespace SET filled = :filled WHERE key = :key

-- name: lower_filled
-- A chunk has lost its vector: the next one of its number may have none.
UPDATE namespace SET filled = min(filled, :chunk - 1) WHERE key = :key

-- name: set_generation
-- The file a search begins with.
UPDATE namespace SET generation = :generation WHERE key = :key

-- name: select_placed
-- Chunks past a number, and whether each has a vector.
SELECT c.key, EXISTS (SELECT 1 FROM vector AS v WHERE v.chunk_key = c.key AND v.namespace_key = :namespace)
FROM chunk AS c WHERE c.key > :filled ORDER BY c.key LIMIT :limit

-- name: select_unplaced
-- Chunks without a vector, the oldest first.
SELECT c.id FROM chunk AS c WHERE c.key > :filled
  AND NOT EXISTS (SELECT 1 FROM vector AS v WHERE v.chunk_key = c.key AND v.namespace_key = :namespace)
ORDER BY c.key LIMIT :limit

-- name: select_chunk_place
-- The number and session of a chunk.
SELECT key, session_id FROM chunk WHERE id = ?

-- name: select_old
-- A namespace that nobody searches any more.
SELECT key, placed FROM namespace WHERE state = 'old' ORDER BY key LIMIT 1

-- name: delete_namespace
-- Nothing is left of it.
DELETE FROM namespace WHERE key = ? AND placed <= 0
