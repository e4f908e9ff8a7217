-- Messages from elsewhere.

-- name: select_by_external_id
-- What the message of that id says.
SELECT hash FROM origin WHERE mark = ? AND session_id = ? AND external_id = ?

-- name: select_by_place
-- What the message says of those words and that place.
SELECT hash FROM origin WHERE session_id = ? AND place = ? AND hash = ?

-- name: select_own_turn
-- Whether a session has a turn.
SELECT 1 FROM turn WHERE id = ? AND session_id = ?

-- name: select_last_place
-- The place a message came from, the last if it holds several records; NULL if it was said here.
SELECT max(place) FROM origin WHERE message_key = ?

-- name: select_message_keys
-- The messages of some turns of a branch, in order.
SELECT user_message, answer FROM turn WHERE branch_id = :branch_id AND turn_seq BETWEEN :first AND :last
ORDER BY turn_seq

-- name: insert_origin
-- Where a message came from.
INSERT INTO origin (message_key, place, session_id, answers, external_id, mark, hash, said_at, details)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: select_origins
-- Where the messages of a turn came from, question first.
SELECT o.answers, o.place, o.hash, o.external_id, o.said_at, o.details
FROM turn AS t JOIN origin AS o ON o.message_key IN (t.user_message, t.answer)
WHERE t.id = ? ORDER BY o.answers, o.place

-- name: select_beginning
-- The origins of a session with the lowest places.
SELECT answers, place, hash, external_id, said_at, details FROM origin WHERE session_id = ? ORDER BY place LIMIT ?

-- name: select_main_branch
-- The branch that a session began with.
SELECT id FROM branch WHERE session_id = ? AND parent_id IS NULL ORDER BY created_at, id LIMIT 1

-- name: insert_recorded_step
-- A provider call of a turn that was finished elsewhere.
INSERT INTO step (id, session_id, turn_id, step_index, provider, model_id, inputs, items, outcome, started_at, ended_at)
VALUES (:id, :session_id, :turn_id, :step_index, :provider, :model_id, :inputs, :items, :outcome, :now, :now)

-- name: count_steps
-- How many steps a recorded turn has.
UPDATE turn SET steps = :steps WHERE id = :id

-- name: date_session
-- An imported conversation has the times of its turns.
UPDATE session SET created_at = CASE WHEN :begun < created_at THEN :begun ELSE created_at END, updated_at = coalesce(
  (SELECT max(t.created_at) FROM branch AS b JOIN turn AS t ON t.branch_id = b.id WHERE b.session_id = :id), updated_at)
WHERE id = :id
