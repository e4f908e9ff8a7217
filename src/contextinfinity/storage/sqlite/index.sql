-- The index: reading what was found, and keeping in step with the ledger.

-- name: select_keys
-- The messages of a turn.
SELECT user_message, answer FROM turn WHERE id = ?

-- name: select_origins_of_message
-- Where a message came from.
SELECT external_id, said_at, json_extract(details, '$.name') FROM origin WHERE message_key = ? ORDER BY place

-- name: select_around
-- A turn and its neighbours on the same branch, with what shows whether anything was said.
SELECT n.id, n.steps, substr(u.text, 1, 80), u.blocks IS NOT NULL, substr(a.text, 1, 80), a.blocks IS NOT NULL
FROM turn AS t JOIN turn AS n ON n.branch_id = t.branch_id AND n.turn_seq BETWEEN t.turn_seq - 1 AND t.turn_seq + 1
  JOIN message AS u ON u.key = n.user_message LEFT JOIN message AS a ON a.key = n.answer
WHERE t.id = ? ORDER BY n.turn_seq

-- name: select_uncut
-- Turns that are to be cut, the oldest first.
SELECT t.id FROM (SELECT question FROM uncut ORDER BY question LIMIT ?) AS w JOIN turn AS t ON t.user_message = w.question
ORDER BY w.question

-- name: select_turns_after
-- Turns after the one whose question has that key, the oldest first.
SELECT id, user_message FROM turn WHERE user_message > ? ORDER BY user_message LIMIT ?

-- name: restore_turn
-- A turn that could not be searched as it should can be.
UPDATE turn SET degraded = 0, updated_at = :now WHERE id = :id AND degraded

-- name: select_state
-- How far the index goes.
SELECT messages, indexed, (SELECT count(*) FROM uncut), chunks, version FROM word_state WHERE one = 1

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
