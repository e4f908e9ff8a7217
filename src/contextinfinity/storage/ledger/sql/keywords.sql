-- Words: what the index needs to know of the ledger, and how common words are.

-- name: select_session_owner
-- Whose a session is.
SELECT org_id, user_id FROM session WHERE id = ?

-- name: select_session_owners
-- Whose some sessions are, by their ids in hex.
SELECT id, org_id, user_id FROM session WHERE id IN (SELECT unhex(value) FROM json_each(?))

-- name: clear_sample
-- How common words are is counted anew.
DELETE FROM word_sample

-- name: select_samples
-- How many of the messages that are counted say each of the words.
SELECT word, places FROM word_sample WHERE word IN (SELECT value FROM json_each(?))

-- name: select_said_at
-- When a message was said elsewhere.
SELECT min(said_at) FROM origin WHERE message_key = ?

-- name: select_types
-- The types of the chunks of a side of a turn.
SELECT DISTINCT chunk_type FROM chunk WHERE turn_id = ? AND side = ?

-- name: unsay_sample
-- A message that was counted says a word no longer.
UPDATE word_sample SET places = places - 1 WHERE word = ?

-- name: delete_sample
-- Nobody says that word.
DELETE FROM word_sample WHERE word = ? AND places <= 0
