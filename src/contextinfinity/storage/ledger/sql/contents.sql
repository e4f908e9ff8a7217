-- What other rows refer to: messages, shared texts, blobs, plans.

-- name: insert_message
-- What was said, once.
INSERT INTO message (session_id, role, text, blocks, content_hash)
VALUES (:session_id, :role, :text, :blocks, :content_hash) RETURNING key

-- name: take_message_keys
-- So many keys for new messages, in ascending order.
WITH RECURSIVE line (key, left) AS (
  SELECT (SELECT coalesce(max(key), 0) + 1 FROM message), :count
  UNION ALL SELECT key + 1, left - 1 FROM line WHERE left > 1)
SELECT key FROM line WHERE left > 0

-- name: insert_numbered_message
-- What was said, once, under a key that was taken before.
INSERT INTO message (key, session_id, role, text, blocks, content_hash) VALUES (?, ?, ?, ?, ?, ?)

-- name: insert_plan
-- The account of a request.
INSERT INTO plan (turn_id, step_index, session_id, body) VALUES (?, ?, ?, ?)

-- name: insert_retrieval
-- A chunk the prompt held.
INSERT OR IGNORE INTO retrieval (turn_id, chunk_id, session_id, similarity, rank) VALUES (?, ?, ?, ?, ?)

-- name: select_text_key
-- Where a text is kept.
SELECT key FROM text WHERE hash = :hash

-- name: select_text_body
-- A text by its hash.
SELECT body FROM text WHERE hash = ? LIMIT 1

-- name: insert_text
-- Keep a text.
INSERT INTO text (hash, body, kept_at) VALUES (:hash, :body, :now) RETURNING key

-- name: touch_text
-- Somebody wants it again.
UPDATE text SET kept_at = ? WHERE key = ?

-- name: select_text
-- A text by its hash.
SELECT body FROM text WHERE hash = ?

-- name: keep_blob
-- Keep bytes, or make those that are there young again.
INSERT INTO blob (hash, media_type, kept_at, body) VALUES (:hash, :media_type, :now, :body)
ON CONFLICT (hash) DO UPDATE SET kept_at = :now

-- name: select_blob
-- Bytes by their hash.
SELECT body, media_type FROM blob WHERE hash = ?

-- name: use_blob
-- A message shows a blob.
INSERT INTO blob_use (hash, message_key, session_id) SELECT hash, :message_key, :session_id FROM blob WHERE hash = :hash
RETURNING hash

-- name: select_idle_texts
-- Texts nothing refers to; scans, and so runs on a reader.
SELECT key, kept_at FROM text WHERE kept_at < :before AND key NOT IN (
  SELECT system FROM session WHERE system IS NOT NULL UNION SELECT summary FROM state WHERE summary IS NOT NULL
  UNION SELECT pins FROM state WHERE pins IS NOT NULL)
  AND hash NOT IN (
    SELECT unhex(used.value) FROM plan, json_each(json_extract(body, '$.is.front', '$.is.form', '$.is.redactions',
      '$.is.workspace[0]', '$.is.workspace[1]', '$.is.workspace[2]', '$.is.workspace[3]', '$.is.workspace[4]'))
      AS used WHERE used.value IS NOT NULL)

-- name: delete_idle_text
-- Remove a text, unless somebody kept it since it was found idle.
DELETE FROM text WHERE key = ? AND kept_at = ? RETURNING key

-- name: select_idle_blobs
-- Blobs no message shows; scans, and so runs on a reader.
SELECT hash, kept_at FROM blob
WHERE kept_at < :before AND NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.hash = blob.hash)

-- name: delete_idle_blob
-- Remove a blob, unless somebody kept it or showed it since it was found idle.
DELETE FROM blob WHERE hash = ?1 AND kept_at = ?2 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE hash = ?1)
RETURNING hash

-- name: select_messages
-- What some messages say.
SELECT m.key, m.role, m.text, m.blocks FROM json_each(?) AS k JOIN message AS m ON m.key = k.value
