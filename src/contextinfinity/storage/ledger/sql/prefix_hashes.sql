-- Prefix hashes of conversations.

-- name: insert_trail
-- TX-0, or a recorded turn: the hashes that a message brought.
INSERT INTO trail (turn_id, session_id, asked, before, answered, alone, body, broken_at)
VALUES (:turn_id, :session_id, :asked, :before, :answered, :alone, :body, :broken_at)

-- name: answer_trail
-- TX-A: the hashes with the answer.
INSERT INTO trail (turn_id, session_id, asked, before, answered, alone)
VALUES (:turn_id, :session_id, :asked, :before, :answered, :alone)
ON CONFLICT (turn_id) DO UPDATE SET asked = excluded.asked, before = excluded.before, answered = excluded.answered,
  alone = excluded.alone

-- name: select_asked_prefix
-- Whose a turn is, and the hashes it was asked with.
SELECT s.user_id, s.org_id, s.kind, r.asked, r.before, r.alone
FROM session AS s LEFT JOIN trail AS r ON r.turn_id = :turn_id WHERE s.id = :session_id

-- name: select_before
-- The prefix hash after the newest turn of a branch before a place that did not fail, if it has one.
SELECT r.answered FROM turn AS t LEFT JOIN trail AS r ON r.turn_id = t.id
WHERE t.branch_id = :branch_id AND t.turn_seq BETWEEN :first AND :last AND t.phase <> 'Failed'
ORDER BY t.turn_seq DESC LIMIT 1

-- name: select_newest_after
-- The newest turn of a branch behind a place, and its phase.
SELECT id, phase FROM turn WHERE branch_id = ? AND turn_seq > ? ORDER BY turn_seq DESC LIMIT 1

-- name: select_continuations
-- Different messages that followed a prefix, by their prefix hashes.
SELECT DISTINCT r.asked FROM trail AS r CROSS JOIN turn AS t ON t.id = r.turn_id
WHERE r.before = ? AND r.before IS NOT NULL AND t.phase <> 'Failed' LIMIT ?

-- name: select_free_after_answer
-- Branches that end with a turn by its prefix hash, the newest: first those that own the turn.
SELECT e.session_id, e.branch_id, e.turn_id, e.turn_seq, 1, NOT e.is_own
FROM branch_end AS e CROSS JOIN session AS s ON s.id = e.session_id
WHERE e.answered = :number AND e.answered IS NOT NULL AND (:session_id IS NULL OR e.session_id = :session_id)
  AND s.user_id = :user_id AND s.org_id = :org_id AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM turn AS l
    WHERE l.branch_id = e.branch_id AND l.turn_seq > e.turn_seq AND l.phase <> 'Failed')
ORDER BY e.is_own DESC, e.branch_id DESC LIMIT :limit

-- name: select_free_after_exchange
-- Branches that end with a turn by its exchange, the newest: first those that own the turn.
SELECT e.session_id, e.branch_id, e.turn_id, e.turn_seq, 1, NOT e.is_own
FROM branch_end AS e CROSS JOIN session AS s ON s.id = e.session_id
WHERE e.alone = :number AND e.alone IS NOT NULL AND (:session_id IS NULL OR e.session_id = :session_id)
  AND s.user_id = :user_id AND s.org_id = :org_id AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM turn AS l
    WHERE l.branch_id = e.branch_id AND l.turn_seq > e.turn_seq AND l.phase <> 'Failed')
ORDER BY e.is_own DESC, e.branch_id DESC LIMIT :limit

-- name: select_after_answer
-- Turns by their prefix hash, those of the newest thread first.
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

-- name: select_turns_asked
-- Turns whose requests were asked with a prefix hash, in no order: all that are equal fit as well.
SELECT r.turn_id FROM trail AS r CROSS JOIN session AS s ON s.id = r.session_id
WHERE r.asked = :asked AND r.body IS NOT NULL AND s.user_id = :user_id AND s.org_id = :org_id
  AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
LIMIT :limit

-- name: select_walked
-- The newest turn that a request made: ids grow with time.
SELECT t.id, t.phase FROM trail AS r CROSS JOIN turn AS t ON t.id = r.turn_id CROSS JOIN session AS s ON s.id = t.session_id
WHERE r.asked = :asked AND r.body = :body AND r.body IS NOT NULL AND s.user_id = :user_id AND s.org_id = :org_id
ORDER BY r.turn_id DESC LIMIT 1

-- name: select_place
-- The branch and the place of a turn.
SELECT branch_id, turn_seq FROM turn WHERE id = ?

-- name: note_broken
-- The connection of a turn's request broke before it was answered.
UPDATE trail SET broken_at = :now WHERE turn_id = :turn_id AND body IS NOT NULL

-- name: select_broken
-- Whether the connection of a turn's request broke before it was answered.
SELECT 1 FROM trail WHERE turn_id = ? AND broken_at > 0

-- name: note_delivered
-- The request of a turn was answered.
UPDATE trail SET broken_at = NULL WHERE turn_id = ? AND broken_at IS NOT NULL

-- name: note_dead
-- The connections of a dead worker broke; the index holds only those that are open or broken.
UPDATE trail SET broken_at = :now WHERE turn_id IN (
  SELECT l.turn_id FROM trail AS l INDEXED BY trail_by_broken_request CROSS JOIN turn AS t ON t.id = l.turn_id
  WHERE l.broken_at = 0 AND l.broken_at IS NOT NULL AND t.owner = :worker)

-- name: join_broken
-- The oldest turn of a request whose connection broke; from now on it is open again.
UPDATE trail SET broken_at = 0 WHERE turn_id = (
  SELECT r.turn_id FROM trail AS r CROSS JOIN turn AS t ON t.id = r.turn_id CROSS JOIN session AS s ON s.id = r.session_id
  WHERE r.body = :body AND r.broken_at >= :since AND t.phase <> 'Failed' AND t.outcome IS NOT 'cancelled'
    AND s.user_id = :user_id AND s.org_id = :org_id AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  ORDER BY r.turn_id LIMIT 1) RETURNING turn_id
