-- The index: reading what was found, and keeping in step with the ledger.

-- name: select_keys
-- The messages of a turn.
SELECT user_message, answer FROM turn WHERE id = ?

-- name: select_epoch
-- How often something that may have been read was deleted or cut anew.
SELECT epoch FROM word_state WHERE one = 1

-- name: select_turns_read
-- Turns by their ids in hex, with their messages; those that are more than plain text have none here. Not those past
-- their time to live.
SELECT t.id, t.session_id, t.branch_id, t.turn_seq, t.created_at, t.steps, t.user_message, u.text, t.answer, a.text
FROM json_each(?) AS k CROSS JOIN turn AS t ON t.id = unhex(k.value)
  JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
  JOIN session AS s ON s.id = t.session_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_around
-- Turns by their ids in hex, and their neighbours on the same branch, each once, in their order.
WITH near AS (
  SELECT DISTINCT t.branch_id, t.turn_seq + d.value AS turn_seq
  FROM json_each(?) AS k CROSS JOIN turn AS t ON t.id = unhex(k.value) CROSS JOIN json_each('[-1,0,1]') AS d)
SELECT t.id FROM near CROSS JOIN turn AS t ON t.branch_id = near.branch_id AND t.turn_seq = near.turn_seq
ORDER BY t.branch_id, t.turn_seq

-- name: select_origins_read
-- Where messages came from, by their keys.
SELECT o.message_key, o.external_id, o.said_at, json_extract(o.details, '$.name')
FROM json_each(?) AS k CROSS JOIN origin AS o ON o.message_key = k.value ORDER BY o.message_key, o.place

-- name: select_chunks_read
-- The chunks of turns, by their ids in hex, in the order of their place.
SELECT c.turn_id, c.id, c.side, c.start, c.end, c.summary, c.chunk_type, c.token_est, c.content_hash, c.created_at
FROM json_each(?) AS k CROSS JOIN chunk AS c ON c.turn_id = unhex(k.value) ORDER BY c.turn_id, c.start, c.end, c.chunk_type, c.id

-- name: select_uncut
-- Turns that are to be cut, the oldest first.
SELECT t.id FROM (SELECT question FROM uncut ORDER BY question LIMIT ?) AS w JOIN turn AS t ON t.user_message = w.question
ORDER BY w.question

-- name: insert_uncut
-- A turn is to be cut.
INSERT INTO uncut VALUES (?) ON CONFLICT DO NOTHING

-- name: select_last_question
-- The newest question.
SELECT coalesce(max(user_message), 0) FROM turn

-- name: select_turns_after
-- Turns after the one whose question has that key, the oldest first.
SELECT id, user_message FROM turn WHERE user_message > ? ORDER BY user_message LIMIT ?

-- name: restore_turn
-- A turn that could not be searched as it should can be.
UPDATE turn SET degraded = 0, updated_at = :now WHERE id = :id AND degraded

-- name: select_marks
-- What is being made anew, and how far.
SELECT version, renewing, made, upto FROM word_state WHERE one = 1

-- name: begin_renewing
-- The words are of another version: all are to be made anew, up to the newest question.
UPDATE word_state SET renewing = :version, made = 0, upto = (SELECT coalesce(max(user_message), 0) FROM turn)
WHERE one = 1

-- name: go_on_renewing
-- The words of the turns up to that key are made anew.
UPDATE word_state SET made = :made WHERE one = 1

-- name: end_renewing
-- All words are of that version.
UPDATE word_state SET version = renewing, renewing = NULL, made = 0, upto = 0 WHERE one = 1
