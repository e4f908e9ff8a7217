-- Turns, their messages, steps and plans.

-- name: take_turn_seq
-- TX-0: the next place on the branch, and the head it is asked on.
UPDATE branch SET last_turn_seq = last_turn_seq + :count
WHERE id = :branch_id AND session_id NOT IN (SELECT session_id FROM deletion)
RETURNING last_turn_seq, session_id, head_state

-- name: select_buried_turn
-- Whether a turn was there and is gone.
SELECT 1 FROM tombstone WHERE id = ? AND kind = 'turn'

-- name: insert_turn
-- TX-0: a turn begins with nothing but its message.
INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, state_before, user_message, owner, retry_of, metadata,
  created_at, updated_at)
VALUES (:id, :session_id, :branch_id, :turn_seq, 'Accepted', :state_before, :user_message, :owner, :retry_of,
  :metadata, :now, :now)

-- name: insert_recorded_turn
-- A turn that was finished elsewhere.
INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, outcome, state_before, state_after, user_message, answer,
  model, metadata, created_at, updated_at)
VALUES (:id, :session_id, :branch_id, :turn_seq, 'Done', :outcome, :state_before, :state_after, :user_message, :answer,
  :model, :metadata, :created_at, :now)

-- name: select_last_turn
-- The last turn of a branch's own, unless another branch goes on from it.
SELECT t.id FROM branch AS b JOIN turn AS t ON t.branch_id = b.id AND t.turn_seq = b.last_turn_seq
WHERE b.id = ? AND NOT EXISTS (SELECT 1 FROM branch AS f WHERE f.parent_id = b.id AND f.fork_seq >= t.turn_seq)

-- name: answer_recorded_turn
-- An answer that was logged after its question.
UPDATE turn SET answer = :answer, outcome = 'completed', updated_at = :now WHERE id = :id

-- name: select_cancelled
-- Those of some turns, by their ids in hex, that somebody asked to stop.
SELECT id FROM turn WHERE id IN (SELECT unhex(value) FROM json_each(?)) AND cancel_requested = 1

-- name: select_acceptance
-- Before a turn is accepted: whether it is there already, whether its worker was declared dead, and how many turns of
-- the branch wait to be answered.
SELECT EXISTS (SELECT 1 FROM turn WHERE id = :id), EXISTS (SELECT 1 FROM worker WHERE id = :owner AND dead_at IS NOT NULL),
  (SELECT count(*) FROM turn INDEXED BY turn_unfinished
    WHERE branch_id = :branch_id AND phase NOT IN ('Done', 'Failed') AND phase = 'Accepted')

-- name: select_running
-- The turn of the branch that is being answered, or else the first that waits.
SELECT id FROM turn INDEXED BY turn_unfinished
WHERE branch_id = ? AND phase NOT IN ('Done', 'Failed') AND phase IN ('Accepted', 'ContextPrepared', 'Responding')
ORDER BY phase = 'Accepted', turn_seq LIMIT 1

-- name: select_turn
-- One turn with its messages.
SELECT t.id, t.session_id, t.branch_id, t.turn_seq, t.phase, t.outcome, t.state_before, t.state_after, t.provider,
  t.model, t.owner, t.retry_of, t.degraded, t.input_tokens, t.output_tokens, t.cached_tokens, t.cost, t.error,
  t.metadata, t.created_at, t.updated_at, t.cancel_requested, t.steps, t.latency_ms,
  u.role, u.text, u.blocks, a.role, a.text, a.blocks, t.user_message, t.answer
FROM turn AS t JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE t.id = ?

-- name: select_unchanged
-- Whether a turn has this owner and phase and was not written since.
SELECT 1 FROM turn WHERE id = ? AND owner = ? AND phase = ? AND updated_at = ? AND cancel_requested = ?

-- name: select_stretch
-- The newest turns of one branch between two places that are within their time to live, newest first, with their messages.
SELECT t.id, t.session_id, t.branch_id, t.turn_seq, t.phase, t.outcome, t.state_before, t.state_after, t.provider,
  t.model, t.owner, t.retry_of, t.degraded, t.input_tokens, t.output_tokens, t.cached_tokens, t.cost, t.error,
  t.metadata, t.created_at, t.updated_at, t.cancel_requested, t.steps, t.latency_ms,
  u.role, u.text, u.blocks, a.role, a.text, a.blocks
FROM turn AS t JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE t.branch_id = :branch_id AND t.turn_seq BETWEEN :first AND :last
  AND t.created_at > coalesce((SELECT :now - e.ttl FROM branch AS b JOIN expiry AS e ON e.session_id = b.session_id
    WHERE b.id = :branch_id), -9223372036854775807)
ORDER BY t.turn_seq DESC LIMIT :limit

-- name: select_digest
-- How many turns of one branch stand between two places, said since a moment, and the sum of their update times.
SELECT count(*), coalesce(sum(updated_at), 0) FROM turn
WHERE branch_id = :branch_id AND turn_seq BETWEEN :first AND :last AND created_at >= :since

-- name: select_ttl
-- The time to live of the session a branch is of.
SELECT e.ttl FROM branch AS b JOIN expiry AS e ON e.session_id = b.session_id WHERE b.id = ?

-- name: select_blocker
-- An earlier turn of the branch that is not final, or any that is being answered.
SELECT turn_seq, phase FROM turn INDEXED BY turn_unfinished
WHERE branch_id = :branch_id AND phase NOT IN ('Done', 'Failed')
  AND phase IN ('Accepted', 'ContextPrepared', 'Responding') AND (phase <> 'Accepted' OR turn_seq < :turn_seq) LIMIT 1

-- name: begin_turn
-- The turn is answered next, unless an earlier one of the branch is not final or any is being answered.
UPDATE turn SET phase = 'ContextPrepared', updated_at = :now WHERE id = :id AND NOT EXISTS (
  SELECT 1 FROM turn AS o INDEXED BY turn_unfinished WHERE o.branch_id = :branch_id AND o.phase NOT IN ('Done', 'Failed')
    AND o.phase IN ('Accepted', 'ContextPrepared', 'Responding') AND (o.phase <> 'Accepted' OR o.turn_seq < :turn_seq))
RETURNING turn_seq

-- name: move_phase
-- The next phase of a turn.
UPDATE turn SET phase = :phase, updated_at = :now WHERE id = :id

-- name: ask_to_stop
-- Somebody wants a running turn stopped.
UPDATE turn SET cancel_requested = 1 WHERE id = ? AND phase IN ('Accepted', 'ContextPrepared', 'Responding')

-- name: begin_responding
-- TX-P: a provider is being asked.
UPDATE turn SET phase = 'Responding', provider = :provider, model = :model_id, updated_at = :now WHERE id = :turn_id

-- name: end_turn
-- TX-A, or the end of a turn that failed.
UPDATE turn SET phase = :phase, outcome = :outcome, answer = :answer, error = :error, updated_at = :now,
  metadata = coalesce(:metadata, metadata), latency_ms = :latency_ms,
  (steps, input_tokens, output_tokens, cached_tokens, cost) = (
    SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0),
      sum(cost)
    FROM step WHERE turn_id = :id)
WHERE id = :id RETURNING steps, input_tokens, output_tokens, cached_tokens, cost

-- name: insert_step
-- TX-P: a step stands before its provider is heard.
INSERT INTO step (id, session_id, turn_id, step_index, provider, model_id, inputs, started_at)
VALUES (:id, :session_id, :turn_id, :step_index, :provider, :model_id, :inputs, :now)

-- name: select_step_clash
-- A step of that id, or of that place in the turn.
SELECT id FROM step WHERE id = :id OR (turn_id = :turn_id AND step_index = :step_index)

-- name: end_step
-- How a step ended.
UPDATE step SET items = :items, outcome = :outcome, input_tokens = :input_tokens, output_tokens = :output_tokens,
  cached_tokens = :cached_tokens, cost = :cost, displayed_bytes = :displayed, durable_bytes = :durable,
  ended_at = :now
WHERE id = :id AND turn_id = :turn_id AND outcome IS NULL RETURNING 1

-- name: add_spending
-- What a step cost its user on a day.
INSERT INTO spending (org_id, user_id, day, dollars)
SELECT org_id, user_id, :day, :dollars FROM session WHERE id = :session_id
ON CONFLICT (org_id, user_id, day) DO UPDATE SET dollars = spending.dollars + excluded.dollars

-- name: select_spending
-- What a user spent from a day on.
SELECT day, dollars FROM spending WHERE org_id = ? AND user_id = ? AND day >= ?

-- name: select_step_outcome
-- Whether a step of the turn has ended.
SELECT outcome FROM step WHERE id = ? AND turn_id = ?

-- name: insert_response
-- The raw reply, compressed.
INSERT INTO response (step_id, session_id, body) VALUES (?, ?, ?)

-- name: select_plan
-- The account of a turn's last request.
SELECT body FROM plan WHERE turn_id = ? ORDER BY step_index DESC LIMIT 1

-- name: select_steps
-- A turn's steps in order, with the turn's answer for items that refer to it.
SELECT s.id, s.step_index, s.provider, s.model_id, s.inputs, s.items, s.outcome, s.input_tokens, s.output_tokens,
  s.cached_tokens, s.cost, s.displayed_bytes, s.durable_bytes, s.started_at, s.ended_at, p.body, r.body,
  a.role, a.text, a.blocks
FROM step AS s JOIN turn AS t ON t.id = s.turn_id
  JOIN plan AS p ON p.turn_id = s.turn_id AND p.step_index = s.step_index
  LEFT JOIN response AS r ON r.step_id = s.id LEFT JOIN message AS a ON a.key = t.answer
WHERE s.turn_id = :turn_id AND s.step_index >= :first ORDER BY s.step_index

-- name: select_rounds
-- What went into a turn's steps and came out of them, in order.
SELECT inputs, items FROM step WHERE turn_id = ? ORDER BY step_index
