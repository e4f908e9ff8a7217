-- States, and the texts they share.

-- name: insert_state
-- A checkpoint.
INSERT INTO state (id, session_id, branch_id, state_seq, parent_id, turn_seq, covers_turn_seq, reason, summary, pins,
  token_count_est, created_at, schema_version)
VALUES (:id, :session_id, :branch_id, :state_seq, :parent_id, :turn_seq, :covers_turn_seq, :reason, :summary, :pins,
  :token_count_est, :created_at, :schema_version)

-- name: select_state
-- One state by its id.
SELECT st.id, st.session_id, st.branch_id, st.state_seq, st.parent_id, st.turn_seq, st.covers_turn_seq, st.reason,
  s.body, p.body, st.token_count_est, st.created_at, st.schema_version
FROM state AS st LEFT JOIN text AS s ON s.key = st.summary LEFT JOIN text AS p ON p.key = st.pins WHERE st.id = ?

-- name: select_head
-- The head of a branch.
SELECT st.id, st.session_id, st.branch_id, st.state_seq, st.parent_id, st.turn_seq, st.covers_turn_seq, st.reason,
  s.body, p.body, st.token_count_est, st.created_at, st.schema_version
FROM branch AS b JOIN state AS st ON st.id = b.head_state
  LEFT JOIN text AS s ON s.key = st.summary LEFT JOIN text AS p ON p.key = st.pins WHERE b.id = ?

-- name: select_chain
-- The states from a branch's head back, the newest first.
WITH RECURSIVE chain (id, depth) AS (
  SELECT head_state, 0 FROM branch WHERE id = :branch_id
  UNION ALL
  SELECT st.parent_id, depth + 1 FROM chain JOIN state AS st ON st.id = chain.id
  WHERE st.parent_id IS NOT NULL AND depth + 1 < :limit)
SELECT st.id, st.session_id, st.branch_id, st.state_seq, st.parent_id, st.turn_seq, st.covers_turn_seq, st.reason,
  s.body, p.body, st.token_count_est, st.created_at, st.schema_version
FROM chain JOIN state AS st ON st.id = chain.id
  LEFT JOIN text AS s ON s.key = st.summary LEFT JOIN text AS p ON p.key = st.pins ORDER BY depth

-- name: select_state_by_seq
-- The state of that number on a branch.
SELECT id, turn_seq, state_seq FROM state WHERE branch_id = ? AND state_seq = ?

-- name: select_base
-- The state a branch started from.
SELECT st.id, st.turn_seq, st.state_seq, st.branch_id
FROM branch AS b JOIN state AS st ON st.id = b.base_state WHERE b.id = ?

-- name: select_newest_fold
-- The newest fold or unfold of a branch up to a number, of some of these reasons; with :covers, that covers just that.
SELECT id FROM state INDEXED BY state_by_fold
WHERE branch_id = :branch_id AND state_seq <= :last AND reason IN ('fold', 'unfold', 'delete')
  AND reason IN (SELECT value FROM json_each(:reasons)) AND covers_turn_seq = coalesce(:covers, covers_turn_seq)
ORDER BY state_seq DESC LIMIT 1

-- name: select_newest
-- The same for any reasons: walks back along the branch.
SELECT id FROM state INDEXED BY state_by_branch
WHERE branch_id = :branch_id AND state_seq <= :last
  AND reason IN (SELECT value FROM json_each(:reasons)) AND covers_turn_seq = coalesce(:covers, covers_turn_seq)
ORDER BY state_seq DESC LIMIT 1

-- name: keep_candidate
-- The fold of a branch that could be committed; the one before it is gone.
INSERT INTO fold_candidate (branch_id, session_id, body, created_at)
VALUES (:branch_id, :session_id, :body, :created_at)
ON CONFLICT (branch_id) DO UPDATE SET body = :body, created_at = :created_at

-- name: select_candidate
-- The fold of a branch that could be committed.
SELECT body FROM fold_candidate WHERE branch_id = ?

-- name: delete_candidate
-- The branch was folded or unfolded: what was proposed goes on from another summary.
DELETE FROM fold_candidate WHERE branch_id = ?

-- name: select_next_commit
-- The number of the first state committed for a turn after a place: the one before it is the newest up to there.
SELECT st.state_seq FROM turn AS t JOIN state AS st ON st.id = t.state_after
WHERE t.branch_id = :branch_id AND t.turn_seq > :at AND st.state_seq <= :last
ORDER BY t.turn_seq LIMIT 1

-- name: move_head
-- Compare and set: the head moves only from the state the new one was built on.
UPDATE branch SET head_state = :state, head_seq = :state_seq WHERE id = :branch_id AND head_state = :expected

-- name: commit_turn
-- TX-B: the turn is part of the committed state.
UPDATE turn SET state_after = :state, phase = 'StateCommitted', updated_at = :now WHERE id = :turn_id

-- name: select_unsettled
-- Turns of the branch before a place that have to be settled first.
SELECT turn_seq, phase FROM turn INDEXED BY turn_unfinished
WHERE branch_id = :branch_id AND turn_seq < :before AND phase NOT IN ('Done', 'Failed')
  AND phase IN ('Accepted', 'ContextPrepared', 'Responding', 'ResponseFinalized')
ORDER BY turn_seq LIMIT 1

-- name: select_commit
-- What a commit of a turn has to know.
SELECT phase, branch_id, turn_seq, state_after FROM turn WHERE id = ?
