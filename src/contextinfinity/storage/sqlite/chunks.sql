-- Chunks and their vectors.

-- name: select_turn_texts
-- The messages of a turn and where it stands.
SELECT t.phase, t.session_id, t.branch_id, u.role, u.text, u.blocks, a.role, a.text, a.blocks
FROM turn AS t JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE t.id = ?

-- name: insert_chunk
-- TX-C: a span of a turn's message; the same words of the same type once.
INSERT INTO chunk (id, session_id, branch_id, turn_id, side, start, end, summary, chunk_type, token_est, content_hash,
  created_at)
VALUES (:id, :session_id, :branch_id, :turn_id, :side, :start, :end, :summary, :chunk_type, :token_est, :content_hash,
  :now)
ON CONFLICT (turn_id, chunk_type, content_hash) DO NOTHING

-- name: select_chunk_key
-- Where those words of that type are kept.
SELECT key FROM chunk WHERE turn_id = :turn_id AND chunk_type = :chunk_type AND content_hash = :content_hash

-- name: insert_embedding_model
-- A model vectors come from.
INSERT INTO embedding_model (name, dim) VALUES (:name, :dim) ON CONFLICT (name) DO NOTHING

-- name: select_embedding_model
-- The number and size of a model's vectors.
SELECT key, dim FROM embedding_model WHERE name = ?

-- name: insert_vector
-- TX-C: one vector a chunk and model.
INSERT INTO vector (chunk_key, model_key, session_id, body) VALUES (?, ?, ?, ?)
ON CONFLICT (chunk_key, model_key) DO NOTHING

-- name: mark_indexed
-- TX-C: the turn can be found.
UPDATE turn SET phase = 'Indexed', degraded = 0, updated_at = :now WHERE id = :id AND phase = 'StateCommitted'

-- name: select_chunks
-- The chunks of a turn in the order of their place.
SELECT c.id, c.session_id, c.branch_id, c.turn_id, c.side, c.start, c.end, c.summary, c.chunk_type, c.token_est,
  c.content_hash, c.created_at, m.role, m.text, m.blocks, em.name, em.dim, v.body
FROM chunk AS c JOIN turn AS t ON t.id = c.turn_id
  JOIN message AS m ON m.key = CASE c.side WHEN 'user' THEN t.user_message ELSE t.answer END
  LEFT JOIN vector AS v ON v.chunk_key = c.key
    AND v.model_key = (SELECT max(model_key) FROM vector WHERE chunk_key = c.key)
  LEFT JOIN embedding_model AS em ON em.key = v.model_key
WHERE c.turn_id = ? ORDER BY c.side DESC, c.start, c.id

-- name: select_chunk
-- One chunk by its id.
SELECT c.id, c.session_id, c.branch_id, c.turn_id, c.side, c.start, c.end, c.summary, c.chunk_type, c.token_est,
  c.content_hash, c.created_at, m.role, m.text, m.blocks, em.name, em.dim, v.body
FROM chunk AS c JOIN turn AS t ON t.id = c.turn_id
  JOIN message AS m ON m.key = CASE c.side WHEN 'user' THEN t.user_message ELSE t.answer END
  LEFT JOIN vector AS v ON v.chunk_key = c.key
    AND v.model_key = (SELECT max(model_key) FROM vector WHERE chunk_key = c.key)
  LEFT JOIN embedding_model AS em ON em.key = v.model_key
WHERE c.id = ?
