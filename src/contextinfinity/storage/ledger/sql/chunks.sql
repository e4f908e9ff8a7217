-- Chunks.

-- name: insert_chunk
-- TX-C: a span of a turn's message; the same words of the same type once.
INSERT INTO chunk (key, id, session_id, branch_id, turn_id, side, start, end, summary, chunk_type, token_est, content_hash,
  created_at)
VALUES (:key, :id, :session_id, :branch_id, :turn_id, :side, :start, :end, :summary, :chunk_type, :token_est,
  :content_hash, :now)
ON CONFLICT (id) DO NOTHING RETURNING key

-- name: select_chunk_key
-- Where a chunk is kept.
SELECT key FROM chunk WHERE id = ?

-- name: select_chunk_keys
-- The chunks of a turn, by where they are kept.
SELECT id, key FROM chunk WHERE turn_id = ?

-- name: begin_recut
-- From here on the chunks of a turn may go.
INSERT INTO recut (turn_id) VALUES (?)

-- name: end_recut
-- From here on they stay again.
DELETE FROM recut WHERE turn_id = ?

-- name: delete_chunks
-- The chunks of a turn that is cut anew.
DELETE FROM chunk WHERE turn_id = ?

-- name: delete_uncut
-- A turn is cut.
DELETE FROM uncut WHERE question = ?

-- name: mark_indexed
-- TX-C: the turn can be found.
UPDATE turn SET phase = 'Indexed', degraded = 0, updated_at = :now WHERE id = :id AND phase = 'StateCommitted'

-- name: select_chunks
-- The chunks of a turn in the order of their place.
SELECT c.id, c.session_id, c.branch_id, c.turn_id, c.side, c.start, c.end, c.summary, c.chunk_type, c.token_est,
  c.content_hash, c.created_at, m.role, m.text, m.blocks
FROM chunk AS c JOIN turn AS t ON t.id = c.turn_id
  JOIN message AS m ON m.key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END
WHERE c.turn_id = ? ORDER BY CASE c.side WHEN 'user' THEN 0 WHEN 'tool' THEN 1 ELSE 2 END, c.start, c.end, c.chunk_type, c.id

-- name: select_chunk
-- One chunk by its id.
SELECT c.id, c.session_id, c.branch_id, c.turn_id, c.side, c.start, c.end, c.summary, c.chunk_type, c.token_est,
  c.content_hash, c.created_at, m.role, m.text, m.blocks
FROM chunk AS c JOIN turn AS t ON t.id = c.turn_id
  JOIN message AS m ON m.key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END
WHERE c.id = ?
