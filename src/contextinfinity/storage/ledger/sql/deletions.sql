-- Deleting. Turns are given by their ids in hex, messages by their keys, both as JSON arrays.

-- name: select_due
-- Sessions to be deleted from: those whose deletion was begun, and those past their time.
SELECT session_id FROM (SELECT session_id, 0 AS due FROM deletion
  UNION SELECT session_id, due FROM (SELECT session_id, due FROM expiry WHERE due <= :now ORDER BY due LIMIT :limit))
GROUP BY session_id ORDER BY min(due) LIMIT :limit

-- name: select_expiry
-- The time to live of a session, when it was made, and whether its deletion was begun.
SELECT e.ttl, s.created_at, s.updated_at, EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
FROM session AS s LEFT JOIN expiry AS e ON e.session_id = s.id WHERE s.id = ?

-- name: select_due_of
-- Whether there may be something to delete in a session.
SELECT 1 FROM session AS s WHERE s.id = :session_id AND (EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  OR EXISTS (SELECT 1 FROM expiry AS e WHERE e.session_id = s.id AND e.due <= :now))

-- name: select_begun
-- Whether a session's deletion was begun.
SELECT 1 FROM deletion WHERE session_id = ?

-- name: select_expired
-- Turns of a session that were said before a moment and are over; in a copy, where nobody ends them, any.
SELECT t.id, t.branch_id, t.turn_seq, t.user_message, t.answer, t.updated_at
FROM branch AS b JOIN turn AS t ON t.branch_id = b.id
WHERE b.session_id = :session_id AND t.created_at <= :before AND (t.phase IN ('Done', 'Failed') OR :unsettled)
LIMIT :limit

-- name: select_unexpired
-- A turn of a session that was said after a moment, or is not over.
SELECT 1 FROM branch AS b JOIN turn AS t ON t.branch_id = b.id
WHERE b.session_id = :session_id AND NOT (t.created_at <= :before AND (t.phase IN ('Done', 'Failed') OR :unsettled))
LIMIT 1

-- name: select_turns
-- Any turns of a session.
SELECT t.id, t.branch_id, t.turn_seq, t.user_message, t.answer, t.updated_at
FROM branch AS b JOIN turn AS t ON t.branch_id = b.id WHERE b.session_id = :session_id LIMIT :limit

-- name: select_unfinished
-- A turn of a session that waits or is being answered.
SELECT t.turn_seq, t.phase FROM branch AS b JOIN turn AS t ON t.branch_id = b.id
WHERE b.session_id = ? AND t.phase NOT IN ('Done', 'Failed') AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding')
LIMIT 1

-- name: select_oldest
-- When the oldest turn of a session was said; NULL: it has none.
SELECT min(t.created_at) FROM branch AS b JOIN turn AS t ON t.branch_id = b.id WHERE b.session_id = ?

-- name: set_due
-- When next to look at a session.
UPDATE expiry SET due = :due WHERE session_id = :session_id

-- name: begin_deletion
-- From here on rows of the session may be deleted, and nobody finds it.
INSERT INTO deletion (session_id, reason, created_at) VALUES (:session_id, :reason, :now) ON CONFLICT DO NOTHING

-- name: end_deletion
-- No row of the session may be deleted any more.
DELETE FROM deletion WHERE session_id = ?

-- name: release_name
-- The foreign id of a session that is being deleted can be used again.
UPDATE session SET external_id = NULL WHERE id = ?

-- name: bury_turns
-- That they once were.
INSERT INTO tombstone (id, session_id, kind, seq, deleted_at)
SELECT t.id, t.session_id, 'turn', t.turn_seq, :now FROM json_each(:turns) AS k CROSS JOIN turn AS t ON t.id = unhex(k.value)
WHERE true ON CONFLICT (id) DO NOTHING

-- name: bury_session
-- That it once was, and whose.
INSERT INTO tombstone (id, session_id, kind, deleted_at, org_id, user_id)
SELECT id, id, 'session', :now, org_id, user_id FROM session WHERE id = :session_id
ON CONFLICT (id) DO UPDATE SET deleted_at = :now, org_id = excluded.org_id, user_id = excluded.user_id

-- name: select_last_buried
-- The highest number of a turn that was deleted in a session.
SELECT max(seq) FROM tombstone WHERE session_id = ? AND kind = 'turn'

-- name: bury_branches
-- To which session branches belonged: what is said on them later elsewhere is known to be deleted.
INSERT INTO tombstone (id, session_id, kind, deleted_at) SELECT id, session_id, 'branch', :now FROM branch
WHERE session_id = :session_id ON CONFLICT (id) DO UPDATE SET deleted_at = :now

-- name: select_all_begun
-- The sessions whose deletion was begun.
SELECT session_id FROM deletion ORDER BY created_at, session_id

-- name: select_cutoffs
-- Up to when what was said in sessions is deleted, is being deleted, or is past its time to live.
SELECT id, max(upto) FROM (
  SELECT d.session_id AS id, :now AS upto FROM json_each(:sessions) AS k
    CROSS JOIN deletion AS d ON d.session_id = unhex(k.value)
  UNION ALL SELECT t.id, t.deleted_at FROM json_each(:sessions) AS k
    CROSS JOIN tombstone AS t ON t.id = unhex(k.value) WHERE t.kind = 'session'
  UNION ALL SELECT e.session_id, :now - e.ttl FROM json_each(:sessions) AS k
    CROSS JOIN expiry AS e ON e.session_id = unhex(k.value))
GROUP BY id

-- name: select_known_steps
-- Those of some steps that are there, and whether they are to go.
SELECT s.id, d.session_id IS NOT NULL OR (e.ttl IS NOT NULL AND t.phase IN ('Done', 'Failed')
  AND t.created_at <= :now - e.ttl)
FROM json_each(:steps) AS k CROSS JOIN step AS s ON s.id = unhex(k.value) CROSS JOIN turn AS t ON t.id = s.turn_id
  LEFT JOIN deletion AS d ON d.session_id = t.session_id LEFT JOIN expiry AS e ON e.session_id = t.session_id

-- name: select_deleted_since
-- Sessions that are being deleted, or were deleted since a moment.
SELECT session_id FROM deletion UNION SELECT id FROM tombstone WHERE kind = 'session' AND deleted_at >= ?

-- name: select_turns_deleted_since
-- Turns that were deleted since a moment.
SELECT id FROM tombstone WHERE kind = 'turn' AND deleted_at >= ?

-- name: select_last_deleted
-- When anything was deleted last.
SELECT max(deleted_at) FROM tombstone

-- name: select_branch_sessions
-- The sessions of branches, and of those that were deleted.
SELECT b.id, b.session_id FROM json_each(:branches) AS k CROSS JOIN branch AS b ON b.id = unhex(k.value)
UNION SELECT t.id, t.session_id FROM json_each(:branches) AS k CROSS JOIN tombstone AS t ON t.id = unhex(k.value)
WHERE t.kind = 'branch'

-- name: loosen_plan_texts
-- The texts that plans of turns refer to. A front with a summary goes with it; with pins or instructions that no other
-- session has, if the session goes.
INSERT INTO loose_text (key, personal)
SELECT t.key, coalesce(json_extract(t.body, '$.is.summary') <> ''
  OR (:whole AND json_array_length(t.body, '$.is.pinned_facts') > 0)
  OR (:whole AND EXISTS (SELECT 1 FROM session AS s CROSS JOIN text AS own ON own.key = s.system
    WHERE s.id = :session_id AND instr(json_extract(t.body, '$.is.system'), own.body)
      AND NOT EXISTS (SELECT 1 FROM session AS o WHERE o.system = s.system AND o.id <> s.id))), 0)
FROM (SELECT DISTINCT used.value AS hash FROM json_each(:turns) AS k CROSS JOIN plan AS p ON p.turn_id = unhex(k.value)
    CROSS JOIN json_each(json_extract(p.body, '$.is.front', '$.is.form', '$.is.redactions',
      '$.is.workspace[0]', '$.is.workspace[1]', '$.is.workspace[2]', '$.is.workspace[3]', '$.is.workspace[4]'))
      AS used WHERE used.value IS NOT NULL) AS u
  CROSS JOIN text AS t ON t.hash = unhex(u.hash)
WHERE true ON CONFLICT (key) DO NOTHING

-- name: loosen_summaries
-- The summaries of a branch that cover a turn.
INSERT INTO loose_text (key, personal)
SELECT DISTINCT summary, 1 FROM state WHERE branch_id = :branch_id AND covers_turn_seq >= :first AND summary IS NOT NULL
ON CONFLICT (key) DO UPDATE SET personal = 1

-- name: loosen_fronts
-- The fronts of what is left of a session that repeat a summary that is to go: their plans cannot be rebuilt any more.
INSERT INTO loose_text (key, personal, session_id)
SELECT DISTINCT f.key, 1, :session_id FROM branch AS b CROSS JOIN turn AS t ON t.branch_id = b.id
  CROSS JOIN plan AS p ON p.turn_id = t.id CROSS JOIN text AS f ON f.hash = unhex(json_extract(p.body, '$.is.front'))
WHERE b.session_id = :session_id AND EXISTS (SELECT 1 FROM state AS st JOIN text AS gone ON gone.key = st.summary
  WHERE st.branch_id = :branch_id AND st.covers_turn_seq >= :first
    AND instr(json_extract(f.body, '$.is.summary'), gone.body))
ON CONFLICT (key) DO UPDATE SET personal = 1, session_id = :session_id

-- name: loosen_states
-- All texts of some states of a branch.
INSERT INTO loose_text (key, personal)
SELECT text, 1 FROM (
  SELECT summary AS text FROM (SELECT summary FROM state WHERE branch_id = :branch_id ORDER BY state_seq LIMIT :limit)
  UNION SELECT pins FROM (SELECT pins FROM state WHERE branch_id = :branch_id ORDER BY state_seq LIMIT :limit))
WHERE text IS NOT NULL
ON CONFLICT (key) DO UPDATE SET personal = 1

-- name: loosen_system
-- The instructions of a session.
INSERT INTO loose_text (key, personal) SELECT system, 1 FROM session WHERE id = ? AND system IS NOT NULL
ON CONFLICT (key) DO UPDATE SET personal = 1

-- name: select_chunk_keys_of_turns
-- The chunks of turns.
SELECT c.key FROM json_each(:turns) AS k CROSS JOIN chunk AS c ON c.turn_id = unhex(k.value)

-- name: select_said
-- What messages say.
SELECT m.key, m.role, m.text, m.blocks FROM json_each(:messages) AS k CROSS JOIN message AS m ON m.key = k.value

-- name: delete_blob_use
-- A message shows a blob no longer.
DELETE FROM blob_use WHERE hash = ? AND message_key = ?

-- name: delete_blob
-- A blob that nobody shows, and that nobody kept after it was shown.
DELETE FROM blob WHERE hash = :hash AND kept_at <= :shown_at AND NOT EXISTS (SELECT 1 FROM blob_use WHERE hash = :hash)

-- name: delete_retrievals
-- Which chunks their prompts held.
DELETE FROM retrieval WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_responses
-- Raw replies.
DELETE FROM response WHERE step_id IN (
  SELECT s.id FROM json_each(:turns) AS k CROSS JOIN step AS s ON s.turn_id = unhex(k.value))

-- name: prune_responses
-- Raw replies of steps that are older, as their ids say; some of them.
DELETE FROM response WHERE step_id IN (
  SELECT step_id FROM response WHERE step_id < :before ORDER BY step_id LIMIT :limit)

-- name: delete_plans
-- The accounts of their requests.
DELETE FROM plan WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_steps
-- Provider calls.
DELETE FROM step WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_jobs
-- What was to be done for them.
DELETE FROM job WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_chunks_of_turns
-- Slices of them.
DELETE FROM chunk WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_origins
-- Where they came from.
DELETE FROM origin WHERE message_key IN (SELECT value FROM json_each(:messages))

-- name: delete_ends
-- Where branches left off with them: their own, and those begun there.
DELETE FROM branch_end WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns)) AND branch_id IN (
  SELECT t.branch_id FROM json_each(:turns) AS k CROSS JOIN turn AS t ON t.id = unhex(k.value) UNION
  SELECT b.id FROM json_each(:turns) AS k CROSS JOIN turn AS t ON t.id = unhex(k.value)
    CROSS JOIN branch AS b ON b.parent_id = t.branch_id AND b.fork_seq >= t.turn_seq)

-- name: delete_trails
-- How they are found by what was said.
DELETE FROM trail WHERE turn_id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_turns
-- The turns themselves.
DELETE FROM turn WHERE id IN (SELECT unhex(value) FROM json_each(:turns))

-- name: delete_messages
-- What was said.
DELETE FROM message WHERE key IN (SELECT value FROM json_each(:messages))

-- name: select_first
-- The first turn of a branch between two places.
SELECT min(turn_seq) FROM turn WHERE branch_id = ? AND turn_seq BETWEEN ? AND ?

-- name: blank_states
-- Summaries of a branch that cover a turn go, and cover no more than what is gone.
UPDATE state SET summary = NULL, token_count_est = 0, covers_turn_seq = min(covers_turn_seq, :gone)
WHERE branch_id = :branch_id AND covers_turn_seq >= :first

-- name: select_borrowers
-- The messages of the next turns of a branch after each of some places.
SELECT DISTINCT t.user_message, t.answer FROM json_each(:gone) AS k CROSS JOIN turn AS t ON t.branch_id = :branch_id
  AND t.turn_seq IN (SELECT n.turn_seq FROM turn AS n WHERE n.branch_id = :branch_id AND n.turn_seq > k.value
    ORDER BY n.turn_seq LIMIT :limit)

-- name: cut_anew
-- A turn is to be cut, if it has ended.
INSERT INTO uncut SELECT user_message FROM turn WHERE user_message = ? AND phase IN ('Indexed', 'Done', 'Failed')
ON CONFLICT DO NOTHING

-- name: delete_branch_candidate
-- A fold of a branch that was only proposed.
DELETE FROM fold_candidate WHERE branch_id = ?

-- name: delete_branch_jobs
-- What was to be done for a branch.
DELETE FROM job WHERE branch_id = ?

-- name: delete_states
-- Some states of a branch.
DELETE FROM state WHERE id IN (SELECT id FROM state WHERE branch_id = :branch_id ORDER BY state_seq LIMIT :limit)

-- name: delete_memories_of_session
-- What was kept for a session alone; what its turns said goes with them.
DELETE FROM memory WHERE thread = ?1 AND owner_key = (SELECT o.key FROM session AS s
  JOIN memory_owner AS o ON o.org_id = s.org_id AND o.user_id = s.user_id WHERE s.id = ?1)

-- name: delete_branches
-- All branches of a session.
DELETE FROM branch WHERE session_id = ?

-- name: delete_session
-- The session itself.
DELETE FROM session WHERE id = ?

-- name: select_loose_texts
-- Whether there are texts to be looked at.
SELECT 1 FROM loose_text LIMIT 1

-- name: select_held_texts
-- Of the texts to be looked at those that sessions and states refer to; scans, and so runs on a reader.
SELECT key FROM loose_text WHERE key IN (SELECT system FROM session WHERE system IS NOT NULL
  UNION SELECT summary FROM state WHERE summary IS NOT NULL UNION SELECT pins FROM state WHERE pins IS NOT NULL)

-- name: select_planned_texts
-- Of the texts to be looked at those that plans refer to, and the sessions of the plans; scans like the one before.
SELECT DISTINCT l.key, p.session_id FROM plan AS p
  CROSS JOIN json_each(json_extract(p.body, '$.is.front', '$.is.form', '$.is.redactions',
      '$.is.workspace[0]', '$.is.workspace[1]', '$.is.workspace[2]', '$.is.workspace[3]', '$.is.workspace[4]'))
      AS used
  CROSS JOIN text AS t ON t.hash = unhex(used.value) CROSS JOIN loose_text AS l ON l.key = t.key

-- name: select_loose_text_uses
-- Texts to be looked at: their keys, when they were kept, whether they can go at any age, and whose plans do not count.
SELECT l.key, t.kept_at, l.personal, l.session_id FROM loose_text AS l LEFT JOIN text AS t ON t.key = l.key

-- name: delete_text
-- Remove a text, unless somebody kept it since it was found idle.
DELETE FROM text WHERE key = ? AND kept_at = ?

-- name: tie_text
-- It was looked at.
DELETE FROM loose_text WHERE key = ?

-- name: select_resent
-- The metadata of a session's turns that keep messages as a client resent them.
SELECT t.id, t.metadata FROM branch AS b CROSS JOIN turn AS t ON t.branch_id = b.id
WHERE b.session_id = :session_id AND instr(t.metadata, :field) > 0

-- name: replace_metadata
-- The metadata of a turn without what it held of deleted turns.
UPDATE turn SET metadata = :metadata, updated_at = :now WHERE id = :id

-- name: select_turn_to_delete
-- A turn, its session and phase, unless its session is being deleted.
SELECT t.session_id, t.phase, t.id, t.branch_id, t.turn_seq, t.user_message, t.answer, t.updated_at
FROM turn AS t WHERE t.id = ? AND t.session_id NOT IN (SELECT session_id FROM deletion)

-- name: count_rows_of_sessions
-- How many rows of each table belong to sessions.
SELECT 'session', count(*) FROM json_each(:ids) AS k CROSS JOIN session AS t ON t.id = unhex(k.value)
UNION ALL SELECT 'branch', count(*) FROM json_each(:ids) AS k CROSS JOIN branch AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'turn', count(*) FROM json_each(:ids) AS k CROSS JOIN turn AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'message', count(*) FROM json_each(:ids) AS k CROSS JOIN message AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'step', count(*) FROM json_each(:ids) AS k CROSS JOIN step AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'state', count(*) FROM json_each(:ids) AS k CROSS JOIN state AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'chunk', count(*) FROM json_each(:ids) AS k CROSS JOIN chunk AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'plan', count(*) FROM json_each(:ids) AS k CROSS JOIN plan AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'response', count(*) FROM json_each(:ids) AS k CROSS JOIN response AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'retrieval', count(*) FROM json_each(:ids) AS k CROSS JOIN retrieval AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'trail', count(*) FROM json_each(:ids) AS k CROSS JOIN trail AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'branch_end', count(*) FROM json_each(:ids) AS k CROSS JOIN branch_end AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'origin', count(*) FROM json_each(:ids) AS k CROSS JOIN origin AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'memory_source', count(*) FROM json_each(:ids) AS k CROSS JOIN memory_source AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'blob_use', count(*) FROM json_each(:ids) AS k CROSS JOIN blob_use AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'fold_candidate', count(*) FROM json_each(:ids) AS k CROSS JOIN fold_candidate AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'request', count(*) FROM json_each(:ids) AS k CROSS JOIN request AS t ON t.session_id = unhex(k.value)
UNION ALL SELECT 'job', count(*) FROM json_each(:ids) AS k CROSS JOIN job AS t ON t.session_id = unhex(k.value)

-- name: count_rows_of_turns
-- How many rows of each table belong to turns.
SELECT 'turn', count(*) FROM json_each(:ids) AS k CROSS JOIN turn AS t ON t.id = unhex(k.value)
UNION ALL SELECT 'step', count(*) FROM json_each(:ids) AS k CROSS JOIN step AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'chunk', count(*) FROM json_each(:ids) AS k CROSS JOIN chunk AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'plan', count(*) FROM json_each(:ids) AS k CROSS JOIN plan AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'retrieval', count(*) FROM json_each(:ids) AS k CROSS JOIN retrieval AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'trail', count(*) FROM json_each(:ids) AS k CROSS JOIN trail AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'branch_end', count(*) FROM json_each(:ids) AS k CROSS JOIN branch_end AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'memory_source', count(*) FROM json_each(:ids) AS k CROSS JOIN memory_source AS t ON t.turn_id = unhex(k.value)
UNION ALL SELECT 'job', count(*) FROM json_each(:ids) AS k CROSS JOIN job AS t ON t.turn_id = unhex(k.value)

-- name: select_saying
-- Whether a message, a memory or a title contains a text.
SELECT 1 FROM message WHERE instr(text, :sample) > 0 OR instr(blocks, :escaped) > 0
UNION ALL SELECT 1 FROM memory WHERE instr(content, :sample) > 0
UNION ALL SELECT 1 FROM session WHERE instr(title, :sample) > 0 LIMIT 1

-- name: shorten_retention
-- A time to live for sessions, or those of a user, that have none or a longer one.
UPDATE session SET ttl_hours = :hours WHERE (ttl_hours IS NULL OR ttl_hours > :hours)
  AND (:user_id IS NULL OR user_id = :user_id)

-- name: expire_as_shortened
-- When turns of sessions with a time to live expire next, where that is not known or no longer right.
INSERT INTO expiry (session_id, ttl, due)
SELECT s.id, :ttl, coalesce((SELECT min(t.created_at) FROM branch AS b JOIN turn AS t ON t.branch_id = b.id
  WHERE b.session_id = s.id), s.created_at) + :ttl
FROM session AS s LEFT JOIN expiry AS e ON e.session_id = s.id
WHERE s.ttl_hours = :hours AND (e.ttl IS NULL OR e.ttl <> :ttl)
ON CONFLICT (session_id) DO UPDATE SET ttl = excluded.ttl, due = excluded.due

-- name: set_retention
-- The time to live of one session; NULL: for ever.
UPDATE session SET ttl_hours = :hours WHERE id = :id

-- name: stop_expiry
-- A session has no time to live any more.
DELETE FROM expiry WHERE session_id = ?
