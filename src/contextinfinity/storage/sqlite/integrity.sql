-- What must hold in a ledger, as questions for what breaks it: each statement is named after what it finds and
-- gives one place a row. Those called each_… give rows to be looked at elsewhere. `named` writes an id, `is_text`
-- tells whether bytes are UTF-8; `:dead` is a JSON array, `:now` in milliseconds,
-- `:migrations` the numbers of all migrations of this release.

-- name: schema_gap
-- Migrations that were passed over, by the one after them.
SELECT 'before version ' || (SELECT min(version) FROM schema_version WHERE version > known.value)
FROM json_each(:migrations) AS known
WHERE known.value < (SELECT max(version) FROM schema_version)
  AND NOT EXISTS (SELECT 1 FROM schema_version WHERE version = known.value)

-- name: id_length
-- Ids that are none: an id has 16 bytes.
SELECT 'session ' || hex(id) FROM session WHERE length(id) <> 16
UNION ALL SELECT 'branch ' || hex(id) FROM branch WHERE length(id) <> 16
UNION ALL SELECT 'state ' || hex(id) FROM state WHERE length(id) <> 16
UNION ALL SELECT 'turn ' || hex(id) FROM turn WHERE length(id) <> 16
UNION ALL SELECT 'step ' || hex(id) FROM step WHERE length(id) <> 16

-- name: content_unreadable
-- What is kept as JSON and is none, or not of the form it is written in: versioned, with a part of a certain type.
WITH cell (place, body, version, part, type) AS (
  SELECT 'plan ' || step_index || ' of turn ' || named(turn_id), body, '$.v', '$.is', 'object' FROM plan
  UNION ALL SELECT 'fold of branch ' || named(branch_id), body, '$.v', '$.is.summary', 'text' FROM fold_candidate
  UNION ALL SELECT 'outcome of step ' || uuid, outcome, '$.v', '$.is.type', 'text' FROM step WHERE outcome IS NOT NULL
  UNION ALL SELECT 'items of step ' || uuid, items, '$.v', '$.is.items', 'array' FROM step WHERE items IS NOT NULL
  UNION ALL SELECT 'inputs of step ' || uuid, inputs, '$.v', '$.is.items', 'array' FROM step WHERE inputs IS NOT NULL
  UNION ALL SELECT 'error of turn ' || uuid, error, '$.v', '$.is.message', 'text' FROM turn WHERE error IS NOT NULL
  UNION ALL SELECT 'metadata of turn ' || uuid, metadata, NULL, NULL, NULL FROM turn WHERE metadata IS NOT NULL
  UNION ALL SELECT 'pins, text ' || key, body, NULL, '$', 'array' FROM text
    WHERE key IN (SELECT pins FROM state WHERE pins IS NOT NULL))
SELECT place FROM cell WHERE CASE
  WHEN NOT is_text(CAST(body AS BLOB)) OR NOT json_valid(body) THEN 1
  WHEN version IS NOT NULL AND json_type(body, version) IS NOT 'integer' THEN 1
  WHEN part IS NOT NULL AND json_type(body, part) IS NOT type THEN 1
  WHEN part = '$' THEN EXISTS (SELECT 1 FROM json_each(body) AS fact WHERE fact.type <> 'text')
  ELSE 0 END

-- name: head_missing
-- Branches whose head is no state.
SELECT 'branch ' || b.uuid FROM branch AS b WHERE NOT EXISTS (SELECT 1 FROM state AS st WHERE st.id = b.head_state)

-- name: head_number
-- Branches that give their head another number than it has.
SELECT 'branch ' || b.uuid || ': ' || b.head_seq || ' instead of ' || st.state_seq
FROM branch AS b JOIN state AS st ON st.id = b.head_state WHERE st.state_seq <> b.head_seq

-- name: head_foreign
-- Branches whose head is a state of another session, or of another branch without being where they started.
SELECT 'branch ' || b.uuid FROM branch AS b JOIN state AS st ON st.id = b.head_state
WHERE st.session_id <> b.session_id OR (st.branch_id <> b.id AND b.head_state <> b.base_state)

-- name: head_behind
-- Branches with states after their head.
SELECT 'branch ' || b.uuid || ': ' || max(st.state_seq) || ' follows ' || b.head_seq
FROM branch AS b JOIN state AS st ON st.branch_id = b.id WHERE st.state_seq > b.head_seq GROUP BY b.id

-- name: base_missing
-- Branches that start from no state, or from one of another session.
SELECT 'branch ' || b.uuid FROM branch AS b
WHERE NOT EXISTS (SELECT 1 FROM state AS st WHERE st.id = b.base_state AND st.session_id = b.session_id)

-- name: parent_missing
-- Branches whose parent is not there, is of another session, or ends before, or begins after, they leave it.
SELECT 'branch ' || b.uuid FROM branch AS b
WHERE b.parent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM branch AS p
  WHERE p.id = b.parent_id AND p.session_id = b.session_id AND b.fork_seq BETWEEN p.fork_seq AND p.last_turn_seq)

-- name: active_branch_missing
-- Sessions whose active branch is not there, or is another session's.
SELECT 'session ' || s.uuid FROM session AS s
WHERE NOT EXISTS (SELECT 1 FROM branch AS b WHERE b.id = s.active_branch AND b.session_id = s.id)

-- name: turn_gap
-- Places of a branch where no turn stands, unless one was deleted there, and turns outside of their branch's places.
-- A chat may have been written with numbers of others, and with any.
WITH seen AS (
  SELECT branch_id, turn_seq, lag(turn_seq) OVER (PARTITION BY branch_id ORDER BY turn_seq) AS before FROM turn),
gap AS (
  SELECT b.uuid, b.session_id, coalesce(s.before, b.fork_seq) + 1 AS first, s.turn_seq - 1 AS last
  FROM seen AS s JOIN branch AS b ON b.id = s.branch_id WHERE s.turn_seq <> coalesce(s.before, b.fork_seq) + 1
  UNION ALL
  SELECT b.uuid, b.session_id, coalesce(max(t.turn_seq), b.fork_seq) + 1, b.last_turn_seq
  FROM branch AS b LEFT JOIN turn AS t ON t.branch_id = b.id GROUP BY b.id
  HAVING coalesce(max(t.turn_seq), b.fork_seq) <> b.last_turn_seq)
SELECT CASE WHEN first <= last THEN 'turns ' || first || ' to ' || last ELSE 'turn ' || (last + 1) END
  || ' of branch ' || uuid FROM gap
WHERE first > last OR ((SELECT count(DISTINCT seq) FROM tombstone AS d WHERE d.session_id = gap.session_id
    AND d.kind = 'turn' AND d.seq BETWEEN first AND last) < last - first + 1
  AND NOT EXISTS (SELECT 1 FROM session AS s WHERE s.id = gap.session_id AND s.kind = 'chat'))

-- name: state_gap
-- States that do not follow from the one before, and branches with fewer or more states than their numbers say.
SELECT 'state ' || st.uuid || ', number ' || st.state_seq || ' of branch ' || b.uuid
FROM state AS st JOIN branch AS b ON b.id = st.branch_id JOIN state AS p ON p.id = st.parent_id
WHERE p.state_seq <> st.state_seq - 1 OR (p.branch_id <> st.branch_id AND p.id <> b.base_state)
UNION ALL
SELECT 'branch ' || b.uuid || ': ' || count(st.id) || ' states'
FROM branch AS b JOIN state AS base ON base.id = b.base_state
  LEFT JOIN state AS st ON st.branch_id = b.id AND st.id <> b.base_state
GROUP BY b.id HAVING count(st.id) <> coalesce(max(st.state_seq), base.state_seq) - base.state_seq
  OR (count(st.id) = 0 AND b.head_seq <> base.state_seq)

-- name: covers_too_far
-- States that cover, or stand at, a turn their branch has not reached.
SELECT 'state ' || st.uuid || ', number ' || st.state_seq || ' of branch ' || b.uuid
FROM state AS st JOIN branch AS b ON b.id = st.branch_id
WHERE st.covers_turn_seq > st.turn_seq OR st.turn_seq > b.last_turn_seq

-- name: state_back
-- States at an earlier turn than the one before them, or that cover fewer without being there to undo a fold; unless
-- something was deleted that they covered.
SELECT 'state ' || st.uuid || ', number ' || st.state_seq || ' of branch ' || named(st.branch_id)
FROM state AS st JOIN state AS p ON p.id = st.parent_id
WHERE st.turn_seq < p.turn_seq OR (st.covers_turn_seq < p.covers_turn_seq AND st.reason NOT IN ('unfold', 'delete')
    AND NOT (st.summary IS NULL AND EXISTS (SELECT 1 FROM tombstone AS d WHERE d.session_id = st.session_id)))

-- name: turn_phase
-- Turns in no known phase, or in one that contradicts whether they are committed.
SELECT 'turn ' || turn_seq || ' of branch ' || named(branch_id) FROM turn
WHERE phase NOT IN ('Accepted', 'ContextPrepared', 'Responding', 'ResponseFinalized', 'StateCommitted', 'Indexed',
    'Done', 'Failed')
  OR (phase IN ('StateCommitted', 'Indexed', 'Done')) <> (state_after IS NOT NULL)

-- name: turns_open
-- Branches where more than one turn is being answered.
SELECT 'branch ' || named(branch_id) || ': turns ' || group_concat(turn_seq, ', ') FROM turn
WHERE phase NOT IN ('Done', 'Failed') AND phase IN ('ContextPrepared', 'Responding')
GROUP BY branch_id HAVING count(*) > 1

-- name: turn_without_message
-- Turns whose question or answer is lost.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
  LEFT JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE u.key IS NULL OR (t.answer IS NOT NULL AND a.key IS NULL)

-- name: turn_without_state
-- Turns whose state, before or after them, is lost.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
WHERE t.state_before NOT IN (SELECT id FROM state)
  OR (t.state_after IS NOT NULL AND t.state_after NOT IN (SELECT id FROM state))

-- name: commit_foreign
-- Turns committed by a state of another branch, or by one that stands before them.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id)
FROM turn AS t JOIN state AS st ON st.id = t.state_after
WHERE st.branch_id <> t.branch_id OR st.turn_seq < t.turn_seq

-- name: turn_without_outcome
-- Turns that are final and answered, and do not say how they ended.
SELECT 'turn ' || turn_seq || ' of branch ' || named(branch_id) FROM turn
WHERE outcome IS NULL AND answer IS NOT NULL AND phase IN ('ResponseFinalized', 'StateCommitted', 'Indexed', 'Done')

-- name: turn_without_step
-- Turns that are being answered without anybody having been asked.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
WHERE t.phase NOT IN ('Done', 'Failed') AND t.phase = 'Responding'
  AND NOT EXISTS (SELECT 1 FROM step AS s WHERE s.turn_id = t.id)

-- name: turn_without_owner
-- Turns that are being answered by nobody; one that is only accepted may wait for somebody.
SELECT 'turn ' || turn_seq || ' of branch ' || named(branch_id) FROM turn
WHERE phase NOT IN ('Done', 'Failed') AND phase IN ('ContextPrepared', 'Responding') AND owner IS NULL

-- name: turn_without_branch
-- Turns on a branch that is not there, or of another session than it.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id)
FROM turn AS t LEFT JOIN branch AS b ON b.id = t.branch_id WHERE b.id IS NULL OR b.session_id <> t.session_id

-- name: message_role
-- Turns whose question was said by the assistant, unless that is all there is of a recorded turn, or whose answer
-- was not.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
  JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
WHERE a.role <> 'assistant'
  OR (u.role = 'assistant' AND (t.phase <> 'Done' OR t.outcome IS NOT NULL OR t.answer IS NOT NULL))

-- name: message_shared
-- Messages of two turns, or that are both question and answer.
SELECT 'message ' || key FROM (
  SELECT user_message AS key FROM turn UNION ALL SELECT answer FROM turn WHERE answer IS NOT NULL)
GROUP BY key HAVING count(*) > 1

-- name: message_orphan
-- Messages without their session.
SELECT 'message ' || key || ' of session ' || named(session_id) FROM message
WHERE session_id NOT IN (SELECT id FROM session)

-- name: message_unused
-- Messages that are no turn's question or answer.
SELECT 'message ' || key || ' of session ' || named(session_id) FROM message
WHERE key NOT IN (SELECT user_message FROM turn UNION ALL SELECT answer FROM turn WHERE answer IS NOT NULL)

-- name: state_orphan
-- States without their branch or without the state before them.
SELECT 'state ' || st.uuid FROM state AS st
WHERE NOT EXISTS (SELECT 1 FROM branch AS b WHERE b.id = st.branch_id AND b.session_id = st.session_id)
  OR (st.parent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM state AS p WHERE p.id = st.parent_id))
  OR (st.parent_id IS NULL AND st.state_seq > 0)

-- name: state_without_text
-- States whose summary or pinned facts are lost.
SELECT 'state ' || st.uuid || ', number ' || st.state_seq || ' of branch ' || named(st.branch_id)
FROM state AS st LEFT JOIN text AS s ON s.key = st.summary LEFT JOIN text AS p ON p.key = st.pins
WHERE (st.summary IS NOT NULL AND s.key IS NULL) OR (st.pins IS NOT NULL AND p.key IS NULL)

-- name: step_orphan
-- Steps without their turn or without their plan; those of imported turns never had one.
SELECT 'step ' || s.uuid FROM step AS s
WHERE NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.id = s.turn_id)
  OR (s.provider <> 'import'
    AND NOT EXISTS (SELECT 1 FROM plan AS p WHERE p.turn_id = s.turn_id AND p.step_index = s.step_index))

-- name: plan_orphan
-- Plans without their turn or, unless they are of a question asked back, without their step.
SELECT 'plan ' || p.step_index || ' of turn ' || named(p.turn_id) FROM plan AS p
WHERE NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.id = p.turn_id)
  OR (p.step_index >= 0
    AND NOT EXISTS (SELECT 1 FROM step AS s WHERE s.turn_id = p.turn_id AND s.step_index = p.step_index))

-- name: response_orphan
-- Raw replies without their step.
SELECT 'response of step ' || named(r.step_id) FROM response AS r
WHERE NOT EXISTS (SELECT 1 FROM step AS s WHERE s.id = r.step_id)

-- name: chunk_orphan
-- Chunks without their turn, or of a side their turn does not have.
SELECT 'chunk ' || c.uuid FROM chunk AS c LEFT JOIN turn AS t ON t.id = c.turn_id
WHERE t.id IS NULL OR (c.side = 'assistant' AND t.answer IS NULL)

-- name: vector_orphan
-- Vectors without their chunk.
SELECT 'vector of chunk number ' || v.chunk_key FROM vector AS v
WHERE NOT EXISTS (SELECT 1 FROM chunk AS c WHERE c.key = v.chunk_key)

-- name: vector_size
-- Vectors, or packs of them, that are longer or shorter than their namespace says: 4 bytes and one a number.
SELECT 'vector number ' || l.key || ': ' || length(l.body) || ' bytes for ' || n.dim || ' numbers'
FROM loose_vector AS l JOIN namespace AS n ON n.key = l.namespace_key WHERE length(l.body) <> n.dim + 4
UNION ALL
SELECT 'pack number ' || p.key || ': ' || length(p.bodies) || ' bytes' FROM vector_pack AS p
  JOIN namespace AS n ON n.key = p.namespace_key
WHERE length(p.bodies) <> (n.dim + 4) * CASE WHEN json_valid(p.keys) THEN json_array_length(p.keys) ELSE 0 END

-- name: keyword_missing
-- Turns that have ended and wait for nothing, whose question or answer is not found by its words.
SELECT 'turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
WHERE t.phase IN ('Indexed', 'Done', 'Failed') AND t.user_message NOT IN (SELECT question FROM uncut)
  AND (NOT EXISTS (SELECT 1 FROM keyword_docsize WHERE id = 4 * t.user_message) OR (t.answer IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM keyword_docsize WHERE id = 4 * t.answer)))

-- name: keyword_orphan
-- Words of messages that are not there.
SELECT 'words of message ' || (id / 4) FROM keyword_docsize AS d
WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = d.id / 4)

-- name: keyword_count
-- What the index counts differs from what is there.
SELECT 'words: ' || s.indexed || ' of ' || d.there || ' messages, ' || s.chunks || ' of ' || c.there || ' chunks'
FROM word_state AS s, (SELECT count(*) AS there FROM keyword_docsize WHERE id % 4 = 0) AS d,
  (SELECT count(*) AS there FROM chunk) AS c
WHERE s.indexed <> d.there OR s.chunks <> c.there

-- name: blob_use_orphan
-- Notes that a message shows a blob, without the message.
SELECT 'blob ' || lower(hex(u.hash)) || ', message ' || u.message_key FROM blob_use AS u
WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = u.message_key)

-- name: job_orphan
-- Jobs without their branch or their turn.
SELECT 'job ' || j.id || ', ' || j.job_type FROM job AS j
WHERE NOT EXISTS (SELECT 1 FROM branch AS b WHERE b.id = j.branch_id)
  OR (j.turn_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.id = j.turn_id))

-- name: job_foreign
-- Jobs on another branch than their turn.
SELECT 'job ' || j.id || ', ' || j.job_type FROM job AS j JOIN turn AS t ON t.id = j.turn_id
WHERE j.branch_id <> t.branch_id

-- name: job_failed
-- Jobs that were given up.
SELECT job_type || ' of turn ' || turn_seq || ' of branch ' || named(branch_id) || ': '
  || substr(coalesce(last_error, 'no reason given'), 1, 200)
FROM job WHERE state = 'failed'

-- name: job_stuck
-- Jobs that run with nobody running them.
SELECT job_type || ' of turn ' || turn_seq || ' of branch ' || named(branch_id) FROM job
WHERE state = 'running' AND (owner IS NULL OR owner IN (SELECT value FROM json_each(:dead)))

-- name: job_missing
-- Turns that wait for a job that is not there. A turn's remember_turn may be done before its index_turn.
SELECT 'summarize_turn of turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
WHERE t.phase NOT IN ('Done', 'Failed') AND t.phase = 'ResponseFinalized'
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.turn_id = t.id AND j.job_type = 'summarize_turn')
UNION ALL
SELECT 'index_turn of turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
WHERE t.phase NOT IN ('Done', 'Failed') AND t.phase = 'StateCommitted'
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.turn_id = t.id AND j.job_type = 'index_turn')
UNION ALL
SELECT 'remember_turn of turn ' || t.turn_seq || ' of branch ' || named(t.branch_id) FROM turn AS t
WHERE t.phase NOT IN ('Done', 'Failed') AND t.phase IN ('StateCommitted', 'Indexed')
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.turn_id = t.id AND j.job_type IN ('index_turn', 'remember_turn'))

-- name: job_needless
-- Jobs that wait for turns that have not come to them, or never will.
SELECT j.job_type || ' of turn ' || j.turn_seq || ' of branch ' || named(j.branch_id)
FROM job AS j JOIN turn AS t ON t.id = j.turn_id
WHERE j.state <> 'running' AND (
  (j.job_type = 'summarize_turn' AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding', 'Failed'))
  OR (j.job_type IN ('index_turn', 'remember_turn')
    AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding', 'ResponseFinalized')))

-- name: worker_dead
-- Workers that are registered and dead.
SELECT 'worker ' || id || ', process ' || pid || ' on ' || host FROM worker
WHERE id IN (SELECT value FROM json_each(:dead))

-- name: deletion_left
-- Deletions that were begun more than a day ago.
SELECT 'session ' || named(session_id) || ': ' || reason FROM deletion WHERE created_at < :now - 86400000

-- name: each_fork
-- Branches with the branches they come from.
SELECT id, parent_id FROM branch WHERE parent_id IS NOT NULL

-- name: each_response
-- Raw replies, compressed.
SELECT named(step_id), body FROM response

-- name: each_showing
-- Messages that may show blobs.
SELECT key, named(session_id), CAST(role AS BLOB), NULL, CAST(blocks AS BLOB) FROM message
WHERE blocks IS NOT NULL AND instr(blocks, '"blob"')

-- name: each_shown
-- A blob that a message shows, if it is kept and noted to be in use.
SELECT 1 FROM blob AS b JOIN blob_use AS u ON u.hash = b.hash WHERE b.hash = ? AND u.message_key = ?

-- name: each_message
-- What was said, with its hash; as bytes, since damaged text is not always text.
SELECT key, named(session_id), CAST(role AS BLOB), CAST(text AS BLOB), CAST(blocks AS BLOB), content_hash FROM message

-- name: each_chunk
-- The spans that were indexed, with the messages they are of, message by message; what tools said is no message.
SELECT c.uuid, m.key, CAST(m.role AS BLOB), CAST(m.text AS BLOB), CAST(m.blocks AS BLOB), c.start, c.end, c.content_hash
FROM chunk AS c JOIN turn AS t ON t.id = c.turn_id
  JOIN message AS m ON m.key = CASE c.side WHEN 'user' THEN t.user_message ELSE t.answer END
WHERE c.side <> 'tool' ORDER BY c.key

-- name: each_text
-- Shared texts with their hashes.
SELECT key, CAST(body AS BLOB), hash FROM text

-- name: each_blob
-- Images and files with their hashes.
SELECT lower(hex(hash)), body, hash FROM blob

-- name: each_step
-- Whether the steps named in a JSON array of ids are over, by themselves or with their turn.
SELECT s.uuid, s.outcome IS NOT NULL OR t.phase NOT IN ('Accepted', 'ContextPrepared', 'Responding')
FROM json_each(:ids) AS i JOIN step AS s ON s.id = unhex(replace(i.value, '-', ''))
  LEFT JOIN turn AS t ON t.id = s.turn_id

-- name: each_worker
-- Everybody who is registered, owns an unfinished turn or runs a job.
SELECT id FROM worker WHERE dead_at IS NULL
UNION SELECT owner FROM turn
WHERE phase NOT IN ('Done', 'Failed') AND phase IN ('Accepted', 'ContextPrepared', 'Responding') AND owner IS NOT NULL
UNION SELECT owner FROM job WHERE state = 'running' AND owner IS NOT NULL
