-- Requests that may come again.

-- name: select_request
-- What a request of that key asked for, and what it made.
SELECT asked, session_id, turn_id FROM request WHERE key = ?

-- name: insert_request
-- What a request made, written with it; a turn that lands late does not take the place of one that was quicker.
INSERT INTO request (key, asked, session_id, turn_id) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO NOTHING

-- name: delete_requests
-- Those of a session that is deleted.
DELETE FROM request WHERE session_id = ?
