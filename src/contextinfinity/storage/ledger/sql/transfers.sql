-- Whole conversations, read and written as they are.

-- name: select_session_transfer
-- A session with the hash of its system text.
SELECT s.id, s.org_id, s.user_id, s.external_id, s.kind, s.title, t.hash, s.ttl_hours, s.active_branch, s.created_at,
  s.updated_at, s.metadata
FROM session AS s LEFT JOIN text AS t ON t.key = s.system
WHERE s.id = ? AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: select_owner_of_session
-- Whose a session is, also one that is being deleted.
SELECT org_id, user_id FROM session WHERE id = ?

-- name: select_deleted_turns
-- The turns that were deleted from a session and were not restored.
SELECT id, seq, deleted_at FROM tombstone AS d WHERE session_id = ? AND kind = 'turn'
  AND NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.id = d.id) ORDER BY id

-- name: select_states_transfer
-- States of a session with the hashes of their texts, a page of them.
SELECT s.id, s.branch_id, s.state_seq, s.parent_id, s.turn_seq, s.covers_turn_seq, s.reason, m.hash, p.hash,
  s.token_count_est, s.created_at, s.schema_version
FROM branch AS b JOIN state AS s ON s.branch_id = b.id LEFT JOIN text AS m ON m.key = s.summary
  LEFT JOIN text AS p ON p.key = s.pins
WHERE b.session_id = :session_id AND s.id > :after ORDER BY s.id LIMIT :limit

-- name: select_turns_transfer
-- Turns of a session, a page of them.
SELECT t.id, t.branch_id, t.turn_seq, t.phase, t.outcome, t.state_before, t.state_after, t.provider, t.model, t.steps,
  t.retry_of, t.error, t.metadata, t.latency_ms, t.created_at, t.updated_at, u.role, u.text, u.blocks, a.role, a.text,
  a.blocks, t.input_tokens, t.output_tokens, t.cached_tokens, t.cost
FROM branch AS b JOIN turn AS t ON t.branch_id = b.id JOIN message AS u ON u.key = t.user_message
  LEFT JOIN message AS a ON a.key = t.answer
WHERE b.session_id = :session_id AND (t.turn_seq, t.id) > (:seq, :id)
ORDER BY t.turn_seq, t.id LIMIT :limit

-- name: select_steps_transfer
-- The provider calls of a turn with their raw responses.
SELECT s.id, s.step_index, s.provider, s.model_id, s.inputs, s.items, s.outcome, s.displayed_bytes, s.durable_bytes,
  s.started_at, s.ended_at, r.body, s.input_tokens, s.output_tokens, s.cached_tokens, s.cost
FROM step AS s LEFT JOIN response AS r ON r.step_id = s.id WHERE s.turn_id = ? ORDER BY s.step_index

-- name: select_plans_transfer
-- The plans of a turn.
SELECT step_index, body FROM plan WHERE turn_id = ? ORDER BY step_index

-- name: select_memories_transfer
-- Memories of an owner, or of one thread, a page of them, without those of conversations that are being deleted.
SELECT key, id, thread, content, kind, about, origin, confidence, weight, created_at, valid_from, valid_to,
  last_placed_at, superseded_by, superseded_at
FROM memory AS m WHERE owner_key = :owner AND thread = :thread AND id > :after
  AND (m.origin = 'person' OR NOT EXISTS (SELECT 1 FROM memory_source AS s JOIN deletion AS d ON d.session_id = s.session_id
      WHERE s.memory_key = m.key)
    OR EXISTS (SELECT 1 FROM memory_source AS s WHERE s.memory_key = m.key
      AND s.session_id NOT IN (SELECT session_id FROM deletion)))
ORDER BY id LIMIT :limit

-- name: select_sources_transfer
-- The turns that a memory was drawn from.
SELECT turn_id, session_id, branch_id, turn_seq, start, "end", said_at FROM memory_source WHERE memory_key = ?
  AND session_id NOT IN (SELECT session_id FROM deletion)
ORDER BY turn_id

-- name: restore_session
-- A session as it was, without its kind and its system text.
INSERT INTO session (id, org_id, user_id, external_id, kind, title, ttl_hours, active_branch, created_at, updated_at,
  metadata)
VALUES (:id, :org_id, :user_id, :external_id, 'thread', :title, :ttl_hours, :active_branch, :created_at, :updated_at,
  :metadata)

-- name: restore_branch
-- A branch as it was.
INSERT INTO branch (id, session_id, parent_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label,
  created_at)
VALUES (:id, :session_id, :parent_id, :fork_seq, :base_state, :head_state, :head_seq, :last_turn_seq, :label,
  :created_at)

-- name: restore_kind
-- The kind and the system text of a session. The kind is set after the turns: a turn inserted into a chat must have an
-- answer, and one that was cancelled there has none.
UPDATE session SET kind = :kind, system = :system WHERE id = :id

-- name: restore_ended_turn
-- A turn as it ended.
INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, outcome, state_before, state_after, user_message, answer,
  provider, model, steps, retry_of, input_tokens, output_tokens, cached_tokens, cost, error, metadata, created_at,
  updated_at, latency_ms)
VALUES (:id, :session_id, :branch_id, :turn_seq, :phase, :outcome, :state_before, :state_after, :user_message, :answer,
  :provider, :model, :steps, :retry_of, :input_tokens, :output_tokens, :cached_tokens, :cost, :error, :metadata,
  :created_at, :updated_at, :latency_ms)

-- name: restore_step
-- A provider call as it ended.
INSERT INTO step (id, session_id, turn_id, step_index, provider, model_id, inputs, items, outcome, input_tokens,
  output_tokens, cached_tokens, cost, displayed_bytes, durable_bytes, started_at, ended_at)
VALUES (:id, :session_id, :turn_id, :step_index, :provider, :model_id, :inputs, :items, :outcome, :input_tokens,
  :output_tokens, :cached_tokens, :cost, :displayed, :durable, :started_at, :ended_at)

-- name: bury_turn
-- A turn was there and was deleted.
INSERT INTO tombstone (id, session_id, kind, seq, deleted_at) VALUES (?, ?, 'turn', ?, ?) ON CONFLICT (id) DO NOTHING

-- name: select_turn_ids
-- The turns of a session.
SELECT t.id FROM branch b JOIN turn t ON t.branch_id = b.id WHERE b.session_id = ?

-- name: select_memory_key
-- A memory by its id.
SELECT key FROM memory WHERE id = ?

-- name: restore_memory
-- A fact as it was.
INSERT INTO memory (id, owner_key, thread, content, hash, kind, about, origin, confidence, weight, created_at,
  valid_from, valid_to, last_placed_at, superseded_by, superseded_at)
VALUES (:id, :owner, :thread, :content, :hash, :kind, :about, :origin, :confidence, :weight, :created_at, :valid_from,
  :valid_to, :last_placed_at, :superseded_by, :superseded_at) RETURNING key

-- name: restore_source
-- A turn of the same owner said it.
INSERT INTO memory_source (memory_key, turn_id, session_id, branch_id, turn_seq, start, "end", said_at)
SELECT :key, t.id, t.session_id, t.branch_id, t.turn_seq, :start, :end, :said_at
FROM turn AS t JOIN session AS s ON s.id = t.session_id
WHERE t.id = :turn_id AND s.org_id = :org_id AND s.user_id = :user_id

-- name: select_owners_transfer
-- Everybody who has a conversation or a memory; scans, and so runs on a reader.
SELECT org_id, user_id FROM session UNION SELECT org_id, user_id FROM memory_owner ORDER BY 1, 2
