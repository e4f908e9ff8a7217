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

-- name: select_ends
-- The turns that trails lead to, in the order of the trails.
SELECT k.key, t.session_id, t.branch_id, t.id, t.turn_seq, NOT EXISTS (SELECT 1 FROM turn AS l
  WHERE l.branch_id = t.branch_id AND l.turn_seq > t.turn_seq AND l.phase <> 'Failed') AS free
FROM json_each(:trails) AS k CROSS JOIN trail AS r ON r.answered = k.value AND r.answered IS NOT NULL
  CROSS JOIN turn AS t ON t.id = r.turn_id CROSS JOIN session AS s ON s.id = t.session_id
WHERE s.user_id = :user_id AND s.org_id = :org_id AND s.kind = 'thread' AND (:session_id IS NULL OR s.id = :session_id)
  AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
ORDER BY k.key, free DESC, t.created_at DESC, t.id DESC LIMIT :limit

-- name: select_exchange
-- The turns that nothing follows and that say just this.
SELECT 0, t.session_id, t.branch_id, t.id, t.turn_seq, 1
FROM trail AS r CROSS JOIN turn AS t ON t.id = r.turn_id CROSS JOIN session AS s ON s.id = t.session_id
WHERE r.alone = :alone AND r.alone IS NOT NULL AND s.user_id = :user_id AND s.org_id = :org_id AND s.kind = 'thread'
  AND (:session_id IS NULL OR s.id = :session_id)
  AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM turn AS l
    WHERE l.branch_id = t.branch_id AND l.turn_seq > t.turn_seq AND l.phase <> 'Failed')
ORDER BY t.created_at DESC, t.id DESC LIMIT :limit

-- name: select_fresh_branch
-- A branch that was begun after a turn and on which nothing was said yet, the newest.
SELECT b.id FROM branch AS b WHERE b.session_id = :session_id AND b.parent_id = :branch_id AND b.fork_seq = :turn_seq
  AND NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.branch_id = b.id AND t.phase <> 'Failed')
ORDER BY b.id DESC LIMIT 1

-- name: select_walked
-- The turn that a request made, the newest: their ids tell when they were made.
SELECT t.id, t.phase FROM trail AS r CROSS JOIN turn AS t ON t.id = r.turn_id CROSS JOIN session AS s ON s.id = t.session_id
WHERE r.asked = :asked AND r.body = :body AND r.body IS NOT NULL AND s.user_id = :user_id AND s.org_id = :org_id
ORDER BY r.turn_id DESC LIMIT 1
