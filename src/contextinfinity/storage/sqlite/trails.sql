-- Trails of conversations.

-- name: insert_trail
-- TX-0, or a turn from elsewhere: where a message stands for its sender.
INSERT INTO trail (turn_id, session_id, asked, answered, alone, body)
VALUES (:turn_id, :session_id, :asked, :answered, :alone, :body)

-- name: answer_trail
-- TX-A: how it went on.
INSERT INTO trail (turn_id, session_id, asked, answered, alone)
VALUES (:turn_id, :session_id, :asked, :answered, :alone)
ON CONFLICT (turn_id) DO UPDATE SET answered = excluded.answered, alone = excluded.alone

-- name: select_asked
-- The trails a turn was asked with.
SELECT asked, alone FROM trail WHERE turn_id = ?

-- name: select_before
-- The trail after the newest turn of a branch before a place that did not fail, if it has one.
SELECT r.answered FROM turn AS t LEFT JOIN trail AS r ON r.turn_id = t.id
WHERE t.branch_id = :branch_id AND t.turn_seq BETWEEN :first AND :last AND t.phase <> 'Failed'
ORDER BY t.turn_seq DESC LIMIT 1

-- name: select_first_known
-- The first of some trails that leads anywhere.
SELECT min(k.key) FROM json_each(:trails) AS k WHERE EXISTS (SELECT 1 FROM trail AS r
  CROSS JOIN session AS s ON s.id = r.session_id
  WHERE r.answered = k.value AND r.answered IS NOT NULL AND (:session_id IS NULL OR r.session_id = :session_id)
    AND s.user_id = :user_id AND s.org_id = :org_id AND s.kind = 'thread'
    AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id))

-- name: select_free_after_answer
-- Branches that end with a turn by its trail, the newest: first those whose own it is.
SELECT e.session_id, e.branch_id, e.turn_id, e.turn_seq, 1, NOT e.is_own
FROM branch_end AS e CROSS JOIN session AS s ON s.id = e.session_id
WHERE e.answered = :number AND e.answered IS NOT NULL AND (:session_id IS NULL OR e.session_id = :session_id)
  AND s.user_id = :user_id AND s.org_id = :org_id AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM turn AS l
    WHERE l.branch_id = e.branch_id AND l.turn_seq > e.turn_seq AND l.phase <> 'Failed')
ORDER BY e.is_own DESC, e.branch_id DESC LIMIT :limit

-- name: select_free_after_exchange
-- Branches that end with a turn by what it says, the newest: first those whose own it is.
SELECT e.session_id, e.branch_id, e.turn_id, e.turn_seq, 1, NOT e.is_own
FROM branch_end AS e CROSS JOIN session AS s ON s.id = e.session_id
WHERE e.alone = :number AND e.alone IS NOT NULL AND (:session_id IS NULL OR e.session_id = :session_id)
  AND s.user_id = :user_id AND s.org_id = :org_id AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM turn AS l
    WHERE l.branch_id = e.branch_id AND l.turn_seq > e.turn_seq AND l.phase <> 'Failed')
ORDER BY e.is_own DESC, e.branch_id DESC LIMIT :limit

-- name: select_after_answer
-- Turns that a trail leads to, those of the newest thread first.
SELECT t.session_id, t.branch_id, t.id, t.turn_seq, 0, 0
FROM trail AS r CROSS JOIN session AS s ON s.id = r.session_id CROSS JOIN turn AS t ON t.id = r.turn_id
WHERE r.answered = :number AND r.answered IS NOT NULL AND (:session_id IS NULL OR r.session_id = :session_id)
  AND s.user_id = :user_id AND s.org_id = :org_id AND s.kind = 'thread'
  AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
ORDER BY r.session_id DESC LIMIT :limit

-- name: select_after_exchange
-- Turns that say just this, those of the newest thread first.
SELECT t.session_id, t.branch_id, t.id, t.turn_seq, 0, 0
FROM trail AS r CROSS JOIN session AS s ON s.id = r.session_id CROSS JOIN turn AS t ON t.id = r.turn_id
WHERE r.alone = :number AND r.alone IS NOT NULL AND (:session_id IS NULL OR r.session_id = :session_id)
  AND s.user_id = :user_id AND s.org_id = :org_id AND s.kind = 'thread'
  AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
ORDER BY r.session_id DESC LIMIT :limit

-- name: set_end
-- A branch leaves off here.
INSERT INTO branch_end (branch_id, session_id, turn_id, turn_seq, is_own, answered, alone)
VALUES (:branch_id, :session_id, :turn_id, :turn_seq, 1, :answered, :alone)
ON CONFLICT (branch_id) DO UPDATE SET turn_id = excluded.turn_id, turn_seq = excluded.turn_seq, is_own = 1,
  answered = excluded.answered, alone = excluded.alone

-- name: drop_end
-- A branch leaves off with something that was not answered.
DELETE FROM branch_end WHERE branch_id = :branch_id

-- name: select_whose
-- Who talks in a session, and how.
SELECT user_id, org_id, kind FROM session WHERE id = ?

-- name: select_walked
-- The turn that a request made, the newest: their ids tell when they were made.
SELECT t.id, t.phase, t.created_at FROM trail AS r CROSS JOIN turn AS t ON t.id = r.turn_id CROSS JOIN session AS s ON s.id = t.session_id
WHERE r.asked = :asked AND r.body = :body AND r.body IS NOT NULL AND s.user_id = :user_id AND s.org_id = :org_id
ORDER BY r.turn_id DESC LIMIT 1
