-- Sessions and branches.

-- name: insert_session
-- A session; its branch and root state follow in the same transaction.
INSERT INTO session (id, org_id, user_id, external_id, kind, title, system, ttl_hours, active_branch, created_at,
  updated_at, metadata)
VALUES (:id, :org_id, :user_id, :external_id, :kind, :title, :system, :ttl_hours, :branch_id, :now, :now, :metadata)

-- name: select_session
-- One session by its id.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.body, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE s.id = ? AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_session_by_external_id
-- One session by the id its owner gave it.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.body, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE s.org_id = ? AND s.user_id = ? AND s.external_id = ? AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_sessions
-- An owner's sessions, the one spoken in last first, from a place in that order on.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.body, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE s.org_id = :org_id AND s.user_id = :user_id AND (s.updated_at, s.id) < (:updated_at, :id)
  AND s.id NOT IN (SELECT session_id FROM deletion)
ORDER BY s.updated_at DESC, s.id DESC LIMIT :limit

-- name: select_sessions_of_all
-- The sessions of all users, in the same order.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.body, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE (s.updated_at, s.id) < (:updated_at, :id) AND s.id NOT IN (SELECT session_id FROM deletion)
ORDER BY s.updated_at DESC, s.id DESC LIMIT :limit

-- name: rename_session
-- Another title.
UPDATE session SET title = :title, updated_at = :now WHERE id = :id

-- name: note_session
-- Another value of one key of its metadata.
UPDATE session SET metadata = json_set(coalesce(metadata, '{}'), :path, json(:value)) WHERE id = :id

-- name: activate_branch
-- Another active branch.
UPDATE session SET active_branch = :branch_id, updated_at = :now WHERE id = :id

-- name: touch_session
-- Something was said in it.
UPDATE session SET updated_at = :now WHERE id = :id

-- name: insert_branch
-- A branch that starts at a state somebody else committed, or at its session's root.
INSERT INTO branch (id, session_id, parent_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label,
  created_at)
VALUES (:id, :session_id, :parent_id, :fork_seq, :state, :state, :state_seq, :fork_seq, :label, :now)

-- name: select_branch
-- One branch by its id, unless its session is being deleted.
SELECT id, session_id, parent_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label, created_at
FROM branch WHERE id = ? AND session_id NOT IN (SELECT session_id FROM deletion)

-- name: select_branches
-- All branches of a session, the oldest first.
SELECT id, session_id, parent_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label, created_at
FROM branch WHERE session_id = ? ORDER BY created_at, id

-- name: go_on_counting
-- A session of an id that was deleted goes on with the numbers of its turns.
UPDATE branch SET last_turn_seq = coalesce(
  (SELECT max(seq) FROM tombstone WHERE session_id = :session_id AND kind = 'turn'), last_turn_seq) WHERE id = :branch_id

-- name: select_buried
-- Whose a deleted session was.
SELECT org_id, user_id FROM tombstone WHERE id = ? AND kind = 'session' AND user_id IS NOT NULL

-- name: select_deletion
-- Whether a session is being deleted.
SELECT 1 FROM deletion WHERE session_id = ?

-- name: select_ancestry
-- The branch and its ancestors, with the turn where each left its parent. Where that turn does not move back
-- (`level` names the branches met at it), a branch met twice ends the walk: no damage makes it endless.
WITH RECURSIVE line (id, parent_id, fork_seq, depth, level) AS (
  SELECT id, parent_id, fork_seq, 0, uuid FROM branch WHERE id = ?
  UNION ALL
  SELECT b.id, b.parent_id, b.fork_seq, depth + 1,
    CASE WHEN b.fork_seq < line.fork_seq THEN b.uuid ELSE level || b.uuid END
  FROM branch AS b JOIN line ON b.id = line.parent_id
  WHERE b.fork_seq < line.fork_seq OR (b.fork_seq = line.fork_seq AND NOT instr(level, b.uuid)))
SELECT id, fork_seq FROM line ORDER BY depth

-- name: select_unfailed
-- Whether any turn of a stretch did not fail.
SELECT 1 FROM turn WHERE branch_id = :branch_id AND turn_seq BETWEEN :first AND :last AND phase <> 'Failed' LIMIT 1

-- name: begin_end
-- A new branch leaves off where it was begun: after the last turn there that did not fail, if that was answered.
INSERT INTO branch_end (branch_id, session_id, turn_id, turn_seq, is_own, answered, alone)
SELECT :id, s.id, line.id, line.turn_seq, 0, r.answered, r.alone FROM (SELECT id, session_id, turn_seq, answer FROM turn
    WHERE branch_id = :branch_id AND turn_seq BETWEEN :first AND :last AND phase <> 'Failed'
    ORDER BY turn_seq DESC LIMIT 1) AS line
  CROSS JOIN trail AS r ON r.turn_id = line.id CROSS JOIN session AS s ON s.id = line.session_id
WHERE line.answer IS NOT NULL AND s.kind = 'thread'
