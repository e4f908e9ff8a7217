-- PostgreSQL's dialect of the statements that a handful of verbs call.

-- name: insert_session
-- A session; its branch and root state follow in the same transaction.
INSERT INTO session (id, org_id, user_id, external_id, kind, title, system, ttl_hours, active_branch, created_at,
  updated_at, metadata)
VALUES (%(id)s, %(org_id)s, %(user_id)s, %(external_id)s, %(kind)s, %(title)s, %(system)s, %(ttl_hours)s, %(branch_id)s, %(now)s, %(now)s,
  %(metadata)s)

-- name: insert_state
-- A checkpoint.
INSERT INTO state (id, session_id, branch_id, state_seq, parent_id, turn_seq, covers_turn_seq, reason, summary, pins,
  token_count_est, created_at, schema_version)
VALUES (%(id)s, %(session_id)s, %(branch_id)s, %(state_seq)s, %(parent_id)s, %(turn_seq)s, %(covers_turn_seq)s, %(reason)s, %(summary)s, %(pins)s,
  %(token_count_est)s, %(created_at)s, %(schema_version)s)

-- name: insert_branch
-- A branch that starts at a state somebody else committed, or at its session's root.
INSERT INTO branch (id, session_id, parent_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label,
  created_at)
VALUES (%(id)s, %(session_id)s, %(parent_id)s, %(fork_seq)s, %(state)s, %(state)s, %(state_seq)s, %(fork_seq)s, %(label)s, %(now)s)

-- name: select_session
-- One session by its id.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.body, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE s.id = %s AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_sessions
-- An owner's sessions, the one spoken in last first, from a place in that order on.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.body, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE s.org_id = %(org_id)s AND s.user_id = %(user_id)s AND (s.updated_at, s.id) < (%(updated_at)s, %(id)s)
  AND s.id NOT IN (SELECT session_id FROM deletion)
ORDER BY s.updated_at DESC, s.id DESC LIMIT %(limit)s

-- name: select_branch
-- One branch by its id, unless its session is being deleted.
SELECT id, session_id, parent_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label, created_at
FROM branch WHERE id = %s AND session_id NOT IN (SELECT session_id FROM deletion)

-- name: select_dead_worker
-- Whether a worker was declared dead.
SELECT 1 FROM worker WHERE id = %s AND dead_at IS NOT NULL

-- name: count_waiting
-- How many turns of the branch wait to be answered.
SELECT count(*) FROM turn
WHERE branch_id = %s AND phase NOT IN ('Done', 'Failed') AND phase = 'Accepted'

-- name: select_running
-- The turn of the branch that is being answered, or else the first that waits.
SELECT id FROM turn
WHERE branch_id = %s AND phase NOT IN ('Done', 'Failed') AND phase IN ('Accepted', 'ContextPrepared', 'Responding')
ORDER BY phase = 'Accepted', turn_seq LIMIT 1

-- name: take_turn_seq
-- TX-0: the next place on the branch, and the head it is asked on.
UPDATE branch SET last_turn_seq = last_turn_seq + %(count)s
WHERE id = %(branch_id)s AND session_id NOT IN (SELECT session_id FROM deletion)
RETURNING last_turn_seq, session_id, head_state

-- name: insert_message
-- What was said, once.
INSERT INTO message (session_id, role, text, blocks, content_hash)
VALUES (%(session_id)s, %(role)s, %(text)s, %(blocks)s, %(content_hash)s) RETURNING key

-- name: insert_turn
-- TX-0: a turn begins with nothing but its message.
INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, state_before, user_message, owner, retry_of, metadata,
  created_at, updated_at)
VALUES (%(id)s, %(session_id)s, %(branch_id)s, %(turn_seq)s, 'Accepted', %(state_before)s, %(user_message)s, %(owner)s, %(retry_of)s,
  %(metadata)s, %(now)s, %(now)s)

-- name: touch_session
-- Something was said in it.
UPDATE session SET updated_at = %(now)s WHERE id = %(id)s

-- name: select_blocker
-- An earlier turn of the branch that is not final, or any that is being answered.
SELECT turn_seq, phase FROM turn
WHERE branch_id = %(branch_id)s AND phase NOT IN ('Done', 'Failed')
  AND phase IN ('Accepted', 'ContextPrepared', 'Responding') AND (phase <> 'Accepted' OR turn_seq < %(turn_seq)s) LIMIT 1

-- name: move_phase
-- The next phase of a turn.
UPDATE turn SET phase = %(phase)s, updated_at = %(now)s WHERE id = %(id)s

-- name: select_turn
-- One turn with its messages.
SELECT t.id, t.session_id, t.branch_id, t.turn_seq, t.phase, t.outcome, t.state_before, t.state_after, t.provider,
  t.model, t.owner, t.retry_of, t.degraded, t.input_tokens, t.output_tokens, t.cached_tokens, t.cost, t.error,
  t.metadata, t.created_at, t.updated_at, t.cancel_requested, t.steps, t.latency_ms,
  u.role, u.text, u.blocks, a.role, a.text, a.blocks
FROM turn AS t JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE t.id = %s

-- name: select_step_clash
-- A step of that id, or of that place in the turn.
SELECT id FROM step WHERE id = %(id)s OR (turn_id = %(turn_id)s AND step_index = %(step_index)s)

-- name: insert_step
-- TX-P: a step stands before its provider is heard.
INSERT INTO step (id, session_id, turn_id, step_index, provider, model_id, inputs, started_at)
VALUES (%(id)s, %(session_id)s, %(turn_id)s, %(step_index)s, %(provider)s, %(model_id)s, %(inputs)s, %(now)s)

-- name: insert_plan
-- The account of a request.
INSERT INTO plan (turn_id, step_index, session_id, body) VALUES (%s, %s, %s, %s)

-- name: begin_responding
-- TX-P: a provider is being asked.
UPDATE turn SET phase = 'Responding', provider = %(provider)s, model = %(model_id)s, updated_at = %(now)s WHERE id = %(turn_id)s

-- name: select_step_outcome
-- Whether a step of the turn has ended.
SELECT outcome FROM step WHERE id = %s AND turn_id = %s

-- name: end_step
-- How a step ended.
UPDATE step SET items = %(items)s, outcome = %(outcome)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
  cached_tokens = %(cached_tokens)s, cost = %(cost)s, displayed_bytes = %(displayed)s, durable_bytes = %(durable)s,
  ended_at = %(now)s
WHERE id = %(id)s AND turn_id = %(turn_id)s AND outcome IS NULL RETURNING 1

-- name: insert_response
-- The raw reply, compressed.
INSERT INTO response (step_id, session_id, body) VALUES (%s, %s, %s)

-- name: end_turn
-- TX-A, or the end of a turn that failed.
UPDATE turn SET phase = %(phase)s, outcome = %(outcome)s, answer = %(answer)s, error = %(error)s, updated_at = %(now)s,
  metadata = coalesce(%(metadata)s, turn.metadata), latency_ms = %(latency_ms)s,
  (steps, input_tokens, output_tokens, cached_tokens, cost) = (
    SELECT count(*), coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
      coalesce(sum(cached_tokens), 0)::bigint, sum(cost)
    FROM step WHERE turn_id = %(id)s)
WHERE id = %(id)s RETURNING steps, input_tokens, output_tokens, cached_tokens, cost

-- name: select_whose
-- Who talks in a session, and how.
SELECT user_id, org_id, kind FROM session WHERE id = %s

-- name: select_asked_prefix
-- The hashes a turn was asked with.
SELECT asked, before, alone FROM trail WHERE turn_id = %s

-- name: select_ancestry
-- The branch and its ancestors, with the turn where each left its parent.
WITH RECURSIVE line (id, parent_id, fork_seq, depth) AS (
  SELECT id, parent_id, fork_seq, 0 FROM branch WHERE id = %s
  UNION ALL
  SELECT b.id, b.parent_id, b.fork_seq, depth + 1 FROM branch AS b JOIN line ON b.id = line.parent_id)
CYCLE id SET is_cycle USING path
SELECT id, fork_seq FROM line WHERE NOT is_cycle ORDER BY depth

-- name: answer_trail
-- TX-A: the hashes with the answer.
INSERT INTO trail (turn_id, session_id, asked, before, answered, alone)
VALUES (%(turn_id)s, %(session_id)s, %(asked)s, %(before)s, %(answered)s, %(alone)s)
ON CONFLICT (turn_id) DO UPDATE SET asked = excluded.asked, before = excluded.before, answered = excluded.answered,
  alone = excluded.alone

-- name: set_end
-- A branch leaves off here.
INSERT INTO branch_end (branch_id, session_id, turn_id, turn_seq, is_own, answered, alone)
VALUES (%(branch_id)s, %(session_id)s, %(turn_id)s, %(turn_seq)s, 1, %(answered)s, %(alone)s)
ON CONFLICT (branch_id) DO UPDATE SET turn_id = excluded.turn_id, turn_seq = excluded.turn_seq, is_own = 1,
  answered = excluded.answered, alone = excluded.alone

-- name: enqueue_turn_job
-- A job for a turn, once; one that had failed waits afresh.
INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
SELECT %(job_type)s, session_id, branch_id, id, turn_seq, 'queued', %(due)s, %(now)s, %(now)s FROM turn WHERE id = %(turn_id)s
ON CONFLICT (turn_id, job_type) WHERE turn_id IS NOT NULL
DO UPDATE SET state = 'queued', attempts = 0, run_at = %(due)s, updated_at = %(now)s
WHERE job.state = 'failed' OR (job.state = 'queued' AND job.attempts = 0 AND job.run_at > %(due)s)

-- name: select_unchanged
-- Whether a turn has this owner and phase and was not written since.
SELECT 1 FROM turn WHERE id = %s AND owner = %s AND phase = %s AND updated_at = %s AND cancel_requested = %s::int

-- name: select_stretch
-- The newest turns of one branch between two places that are within their time to live, newest first, with messages.
SELECT t.id, t.session_id, t.branch_id, t.turn_seq, t.phase, t.outcome, t.state_before, t.state_after, t.provider,
  t.model, t.owner, t.retry_of, t.degraded, t.input_tokens, t.output_tokens, t.cached_tokens, t.cost, t.error,
  t.metadata, t.created_at, t.updated_at, t.cancel_requested, t.steps, t.latency_ms,
  u.role, u.text, u.blocks, a.role, a.text, a.blocks
FROM turn AS t JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE t.branch_id = %(branch_id)s AND t.turn_seq BETWEEN %(first)s AND %(last)s
  AND t.created_at > coalesce((SELECT %(now)s - (s.ttl_hours * 3600000)::bigint FROM branch AS b
    JOIN session AS s ON s.id = b.session_id WHERE b.id = %(branch_id)s), -9223372036854775807)
ORDER BY t.turn_seq DESC LIMIT %(limit)s

-- name: select_plan
-- The account of a turn's last request.
SELECT body FROM plan WHERE turn_id = %s ORDER BY step_index DESC LIMIT 1

-- name: select_ttl
-- The time to live of a branch's session, in milliseconds.
SELECT (s.ttl_hours * 3600000)::bigint FROM branch AS b JOIN session AS s ON s.id = b.session_id
WHERE b.id = %s AND s.ttl_hours IS NOT NULL

-- name: insert_words
-- The words of a message.
INSERT INTO keyword (message_key, words) VALUES (%s, to_tsvector('simple', %s))
