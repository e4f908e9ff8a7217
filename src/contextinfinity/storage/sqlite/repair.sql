-- What can be set right without losing anything: each statement is named after what it repairs.

-- name: job_needless
-- Jobs before their time, or for nothing; the transaction that calls for one makes it.
DELETE FROM job WHERE state <> 'running' AND (
  (job_type = 'summarize_turn' AND EXISTS (SELECT 1 FROM turn AS t WHERE t.id = job.turn_id
    AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding', 'Failed')))
  OR (job_type IN ('index_turn', 'remember_turn') AND EXISTS (SELECT 1 FROM turn AS t WHERE t.id = job.turn_id
    AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding', 'ResponseFinalized'))))
RETURNING id

-- name: job_failed
-- Jobs that were given up are tried again, as if for the first time.
UPDATE job SET state = 'queued', attempts = 0, owner = NULL, run_at = :now, updated_at = :now WHERE state = 'failed'
RETURNING id

-- name: job_stuck
-- Jobs that nobody runs are due again.
UPDATE job SET state = 'queued', owner = NULL, run_at = :now, updated_at = :now
WHERE state = 'running' AND (owner IS NULL OR owner IN (SELECT value FROM json_each(:dead))) RETURNING id

-- name: job_missing
-- The jobs that turns wait for; the same conditions as in integrity.sql.
INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
SELECT wanted.job_type, t.session_id, t.branch_id, t.id, t.turn_seq, 'queued', :now, :now, :now
FROM turn AS t JOIN (
  SELECT 'ResponseFinalized' AS phase, 'summarize_turn' AS job_type UNION ALL SELECT 'StateCommitted', 'index_turn'
  UNION ALL SELECT 'StateCommitted', 'remember_turn' UNION ALL SELECT 'Indexed', 'remember_turn') AS wanted
  ON wanted.phase = t.phase
WHERE t.phase NOT IN ('Done', 'Failed') AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.turn_id = t.id
  AND (j.job_type = wanted.job_type OR (wanted.job_type = 'remember_turn' AND j.job_type = 'index_turn')))
RETURNING id

-- name: keyword_missing
-- Turns that are not found by their words are put among those that are to be cut: the words come with the chunks.
INSERT INTO uncut SELECT t.user_message FROM turn AS t
WHERE t.phase IN ('Indexed', 'Done', 'Failed') AND t.user_message NOT IN (SELECT question FROM uncut)
  AND (NOT EXISTS (SELECT 1 FROM keyword_docsize WHERE id = 4 * t.user_message) OR (t.answer IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM keyword_docsize WHERE id = 4 * t.answer)))
RETURNING question

-- name: keyword_count
-- The index is counted again.
UPDATE word_state SET indexed = (SELECT count(*) FROM keyword_docsize WHERE id % 4 = 0),
  chunks = (SELECT count(*) FROM chunk)
WHERE indexed <> (SELECT count(*) FROM keyword_docsize WHERE id % 4 = 0) OR chunks <> (SELECT count(*) FROM chunk)
RETURNING one

-- name: worker_dead
-- Registrations of the dead. Their turns stay theirs: recovery finds those by their owner.
DELETE FROM worker WHERE id IN (SELECT value FROM json_each(:dead)) RETURNING id
