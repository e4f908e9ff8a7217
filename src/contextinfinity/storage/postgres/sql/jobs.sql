-- Jobs, as PostgreSQL takes and queues them.

-- name: enqueue_turn_job
-- A job for a turn, once; one that had failed waits afresh.
INSERT INTO job AS j (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
SELECT :job_type, session_id, branch_id, id, turn_seq, 'queued', :due, :now, :now FROM turn WHERE id = :turn_id
ON CONFLICT (turn_id, job_type) WHERE turn_id IS NOT NULL
DO UPDATE SET state = 'queued', attempts = 0, run_at = excluded.run_at, updated_at = excluded.updated_at
WHERE j.state = 'failed' OR (j.state = 'queued' AND j.attempts = 0 AND j.run_at > excluded.run_at)

-- name: enqueue_branch_job
-- A job for a branch, once; one that had failed waits afresh, one that runs will run once more.
INSERT INTO job AS j (job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at)
SELECT :job_type, session_id, id, last_turn_seq, 'queued', :due, :now, :now FROM branch WHERE id = :branch_id
ON CONFLICT (branch_id, job_type) WHERE turn_id IS NULL DO UPDATE SET again = j.state = 'running',
  state = iif(j.state = 'failed', 'queued', j.state), attempts = iif(j.state = 'failed', 0, j.attempts),
  run_at = iif(j.state = 'running' AND j.again, least(j.run_at, excluded.run_at), excluded.run_at),
  updated_at = excluded.updated_at
WHERE j.state <> 'queued' OR (j.attempts = 0 AND j.run_at > excluded.run_at)

-- name: requeue_turn_job
-- A turn's job is to be done once more, also if it runs.
INSERT INTO job AS j (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
SELECT :job_type, session_id, branch_id, id, turn_seq, 'queued', :now, :now, :now FROM turn WHERE id = :turn_id
ON CONFLICT (turn_id, job_type) WHERE turn_id IS NOT NULL DO UPDATE SET again = j.state = 'running',
  state = iif(j.state = 'failed', 'queued', j.state), attempts = iif(j.state = 'failed', 0, j.attempts),
  run_at = excluded.run_at, updated_at = excluded.updated_at
WHERE j.state <> 'queued'

-- name: enqueue_claimed
-- A new job for a turn that its worker runs at once, if its lane of the branch is free and no earlier one of its kind
-- comes first; else it waits.
INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, attempts, owner, run_at, created_at, updated_at)
SELECT :job_type, t.session_id, t.branch_id, t.id, t.turn_seq, iif(f.free, 'running', 'queued'), f.free::int,
  iif(f.free, :worker, NULL), :now, :now, :now
FROM turn AS t, (SELECT NOT EXISTS (SELECT 1 FROM job AS o JOIN turn AS own ON own.id = :turn_id
  WHERE o.branch_id = own.branch_id AND ((o.state = 'running' AND o.job_type <> 'fold_branch')
    OR (o.state = 'queued' AND o.job_type = :job_type AND o.turn_seq < own.turn_seq))) AS free) AS f
WHERE t.id = :turn_id
RETURNING id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner

-- name: select_job_for
-- The job of a kind that waits for a turn, or for a branch without one.
SELECT id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner
FROM job WHERE branch_id = :branch_id AND job_type = :job_type AND turn_id IS NOT DISTINCT FROM :turn_id

-- name: select_next_job
-- A job that is due, of some kinds, whose lane of its branch is free and which has no earlier one of its kind before it.
-- Of one of the first branches at random: of workers that all took the first job, all but one would have to run again.
SELECT j.id FROM job AS j WHERE j.id IN (SELECT d.id FROM job AS d
  WHERE d.state = 'queued' AND d.run_at NOT BETWEEN :now + 1 AND :now + 120000
    AND coalesce(d.job_type IN (SELECT value FROM json_each(:kinds)) OR :kinds::text IS NULL, true)
    AND NOT EXISTS (SELECT 1 FROM job AS r WHERE r.branch_id = d.branch_id AND r.state = 'running'
      AND (r.job_type = 'fold_branch') = (d.job_type = 'fold_branch'))
    AND NOT EXISTS (SELECT 1 FROM job AS e WHERE e.branch_id = d.branch_id AND e.job_type = d.job_type
      AND e.turn_seq < d.turn_seq AND e.state = 'queued')
  ORDER BY d.run_at, d.id LIMIT 32)
ORDER BY hashtextextended(encode(j.branch_id, 'hex'), (SELECT (random() * 1000000)::bigint)), j.run_at, j.id LIMIT 1

-- name: select_next_due
-- When the next job of some kinds that could be taken is due.
SELECT min(iif(j.run_at > :now + 120000, :now, j.run_at)) FROM job AS j
WHERE j.state = 'queued' AND coalesce(j.job_type IN (SELECT value FROM json_each(:kinds)) OR :kinds::text IS NULL, true)
  AND NOT EXISTS (SELECT 1 FROM job AS r WHERE r.branch_id = j.branch_id AND r.state = 'running'
    AND (r.job_type = 'fold_branch') = (j.job_type = 'fold_branch'))
  AND NOT EXISTS (SELECT 1 FROM job AS e WHERE e.branch_id = j.branch_id AND e.job_type = j.job_type
    AND e.turn_seq < j.turn_seq AND e.state = 'queued')

-- name: take_job
-- The job runs, and the attempt counts even if it kills its worker.
UPDATE job SET state = 'running', again = false, owner = :worker, attempts = attempts + 1, updated_at = :now WHERE id = :id
RETURNING id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner

-- name: run_again
-- Done, but asked for once more while it ran.
UPDATE job SET state = 'queued', again = false, owner = NULL, attempts = 0, run_at = greatest(run_at, :now),
  updated_at = :now
WHERE id = :id AND owner = :worker AND state = 'running' AND again RETURNING turn_id, job_type

-- name: end_turn_job
-- A job of a turn ended: how long its stages took, in milliseconds, and Done if nothing is left to do for the turn.
UPDATE turn SET latency_ms = CASE WHEN :took::text IS NULL THEN latency_ms
    ELSE (coalesce(latency_ms, '{}')::jsonb || :took::jsonb)::text END,
  (phase, updated_at) = (SELECT iif(d.done, 'Done', phase), iif(d.done, :now, updated_at) FROM (
    SELECT phase = 'Indexed' AND NOT EXISTS (SELECT 1 FROM job WHERE turn_id = :turn_id
      AND job_type IN ('index_turn', 'remember_turn') AND state <> 'failed') AS done) AS d)
WHERE id = :turn_id
