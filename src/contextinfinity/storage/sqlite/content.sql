-- What other rows refer to: messages, shared texts, plans.

-- name: insert_message
-- What was said, once.
INSERT INTO message (session_id, role, text, blocks, content_hash)
VALUES (:session_id, :role, :text, :blocks, :content_hash) RETURNING key

-- name: insert_plan
-- The account of a request.
INSERT INTO plan (turn_id, step_index, session_id, body) VALUES (?, ?, ?, ?)

-- name: insert_retrieval
-- A chunk the prompt held.
INSERT OR IGNORE INTO retrieval (turn_id, chunk_id, session_id, similarity, rank) VALUES (?, ?, ?, ?, ?)

-- name: select_text_key
-- Where a text is kept.
SELECT key FROM text WHERE hash = ?

-- name: insert_text
-- Keep a text.
INSERT INTO text (hash, body) VALUES (?, ?) RETURNING key
