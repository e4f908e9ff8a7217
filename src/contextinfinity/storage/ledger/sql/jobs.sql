-- Jobs and workers.

-- name: enqueue_turn_job
-- A job for a turn, once; one that had failed waits afresh.
INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
SELECT :job_type, session_id, branch_id, id, turn_seq, 'queued', :due, :now, :now FROM turn WHERE id = :turn_id
ON CONFLICT (turn_id, job_type) WHERE turn_id IS NOT NULL
DO UPDATE SET state = 'queued', attempts = 0, run_at = :due, updated_at = :now
WHERE job.state = 'failed' OR (job.state = 'queued' AND attempts = 0 AND run_at > :due)

-- name: enqueue_branch_job
-- A job for a branch as it stands, once; one that had failed waits afresh, one that runs will run once more. While it
-- runs, run_at says when that may be.
INSERT INTO job (job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at)
SELECT :job_type, session_id, id, last_turn_seq, 'queued', :due, :now, :now FROM branch WHERE id = :branch_id
ON CONFLICT (branch_id, job_type) WHERE turn_id IS NULL DO UPDATE SET again = job.state = 'running',
  state = iif(job.state = 'failed', 'queued', job.state), attempts = iif(job.state = 'failed', 0, attempts),
  run_at = iif(job.state = 'running' AND again, min(run_at, :due), :due), updated_at = :now
WHERE job.state <> 'queued' OR (attempts = 0 AND run_at > :due)

-- name: select_job_for
-- The job of a kind that waits for a turn, or for a branch without one.
SELECT id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner
FROM job WHERE branch_id = :branch_id AND job_type = :job_type AND turn_id IS :turn_id

-- name: select_next_job
-- The next job due, of some kinds, whose lane of its branch is free (folds have one, all else the other) and which
-- has no earlier one of its kind before it. No job is ever put off for two minutes: one that seems to be was queued
-- before the clock went back, and is due.
SELECT j.id FROM job AS j
WHERE j.state = 'queued' AND j.run_at NOT BETWEEN :now + 1 AND :now + 120000
  AND (:kinds IS NULL OR j.job_type IN (SELECT value FROM json_each(:kinds)))
  AND NOT EXISTS (SELECT 1 FROM job AS r WHERE r.branch_id = j.branch_id AND r.state = 'running'
    AND (r.job_type = 'fold_branch') = (j.job_type = 'fold_branch'))
  AND NOT EXISTS (SELECT 1 FROM job AS e WHERE e.branch_id = j.branch_id AND e.job_type = j.job_type
    AND e.turn_seq < j.turn_seq AND e.state = 'queued')
ORDER BY j.run_at, j.id LIMIT 1

-- name: enqueue_claimed
-- A new job for a turn that its worker runs at once, if its lane of the branch is free and no earlier one of its kind
-- comes first; else it waits.
INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, attempts, owner, run_at, created_at, updated_at)
SELECT :job_type, t.session_id, t.branch_id, t.id, t.turn_seq, iif(f.free, 'running', 'queued'), f.free,
  iif(f.free, :worker, NULL), :now, :now, :now
FROM turn AS t, (SELECT NOT EXISTS (SELECT 1 FROM job AS o JOIN turn AS own ON own.id = :turn_id
  WHERE o.branch_id = own.branch_id AND ((o.state = 'running' AND o.job_type <> 'fold_branch')
    OR (o.state = 'queued' AND o.job_type = :job_type AND o.turn_seq < own.turn_seq))) AS free) AS f
WHERE t.id = :turn_id
RETURNING id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner

-- name: select_earlier_kinds
-- The kinds of jobs that earlier turns of a branch still have.
SELECT DISTINCT job_type FROM job WHERE branch_id = :branch_id AND turn_seq < :turn_seq AND turn_id IS NOT NULL
  AND state <> 'failed'

-- name: requeue_turn_job
-- A turn's job is to be done once more, also if it runs.
INSERT INTO job (job_type, session_id, branch_id, turn_id, turn_seq, state, run_at, created_at, updated_at)
SELECT :job_type, session_id, branch_id, id, turn_seq, 'queued', :now, :now, :now FROM turn WHERE id = :turn_id
ON CONFLICT (turn_id, job_type) WHERE turn_id IS NOT NULL DO UPDATE SET again = job.state = 'running',
  state = iif(job.state = 'failed', 'queued', job.state), attempts = iif(job.state = 'failed', 0, attempts),
  run_at = :now, updated_at = :now
WHERE job.state <> 'queued'

-- name: select_claimed
-- The jobs that a worker has.
SELECT id FROM job WHERE state = 'running' AND owner = ?

-- name: take_job
-- The job runs, and the attempt counts even if it kills its worker.
UPDATE job SET state = 'running', again = 0, owner = :worker, attempts = attempts + 1, updated_at = :now WHERE id = :id
RETURNING id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner

-- name: delete_job
-- Done and gone, for the worker that has it.
DELETE FROM job WHERE id = :id AND owner = :worker AND state = 'running' AND NOT again RETURNING turn_id, job_type

-- name: run_again
-- Done, but asked for once more while it ran.
UPDATE job SET state = 'queued', again = 0, owner = NULL, attempts = 0, run_at = max(run_at, :now), updated_at = :now
WHERE id = :id AND owner = :worker AND state = 'running' AND again RETURNING turn_id, job_type

-- name: release_job
-- Given back untried: the attempt does not count.
UPDATE job SET state = 'queued', owner = NULL, attempts = attempts - 1, run_at = min(run_at, :now), updated_at = :now
WHERE id = :id AND owner = :worker AND state = 'running' RETURNING turn_id, job_type

-- name: put_back_job
-- To be tried again later.
UPDATE job SET state = 'queued', owner = NULL, last_error = :error, run_at = :run_at, updated_at = :now
WHERE id = :id AND owner = :worker AND state = 'running' RETURNING turn_id, job_type

-- name: fail_job
-- Given up, and kept to be seen.
UPDATE job SET state = 'failed', owner = NULL, last_error = :error, updated_at = :now
WHERE id = :id AND owner = :worker AND state = 'running' RETURNING turn_id, job_type

-- name: mark_degraded
-- The turn cannot be searched as it should.
UPDATE turn SET degraded = 1, updated_at = :now WHERE id = :turn_id

-- name: mark_unindexed
-- Indexing was given up: the turn goes on without.
UPDATE turn SET phase = 'Indexed', degraded = 1, updated_at = :now WHERE id = :turn_id AND phase = 'StateCommitted'

-- name: mark_done
-- Nothing is left to do for the turn.
UPDATE turn SET phase = 'Done', updated_at = :now WHERE id = :turn_id AND phase = 'Indexed'
  AND NOT EXISTS (SELECT 1 FROM job WHERE turn_id = :turn_id AND job_type IN ('index_turn', 'remember_turn')
    AND state <> 'failed')

-- name: end_turn_job
-- A job of a turn ended: how long its stages took, in milliseconds, and Done if nothing is left to do for the turn.
UPDATE turn SET latency_ms = iif(:took IS NULL, latency_ms, json_patch(coalesce(latency_ms, '{}'), :took)),
  (phase, updated_at) = (SELECT iif(d.done, 'Done', phase), iif(d.done, :now, updated_at) FROM (
    SELECT phase = 'Indexed' AND NOT EXISTS (SELECT 1 FROM job WHERE turn_id = :turn_id
      AND job_type IN ('index_turn', 'remember_turn') AND state <> 'failed') AS done) AS d)
WHERE id = :turn_id

-- name: select_jobs
-- All jobs, the oldest first.
SELECT id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner
FROM job ORDER BY id LIMIT :limit

-- name: select_jobs_of
-- The jobs of a branch, the oldest first.
SELECT id, job_type, session_id, branch_id, turn_seq, state, run_at, created_at, updated_at, turn_id, attempts,
  last_error, owner
FROM job WHERE branch_id = :branch_id ORDER BY id LIMIT :limit

-- name: count_jobs
-- How many jobs of each kind are in each state, and since when; there are only as many as wait.
SELECT state, job_type, count(*), min(created_at) FROM job GROUP BY state, job_type

-- name: select_next_due
-- When the next job of some kinds that could be taken is due; those behind another have to wait in any case.
SELECT min(iif(j.run_at > :now + 120000, :now, j.run_at)) FROM job AS j
WHERE j.state = 'queued' AND (:kinds IS NULL OR j.job_type IN (SELECT value FROM json_each(:kinds)))
  AND NOT EXISTS (SELECT 1 FROM job AS r WHERE r.branch_id = j.branch_id AND r.state = 'running'
    AND (r.job_type = 'fold_branch') = (j.job_type = 'fold_branch'))
  AND NOT EXISTS (SELECT 1 FROM job AS e WHERE e.branch_id = j.branch_id AND e.job_type = j.job_type
    AND e.turn_seq < j.turn_seq AND e.state = 'queued')

-- name: insert_worker
-- A process begins to work.
INSERT INTO worker (id, host, pid, started_at) VALUES (:id, :host, :pid, :now)

-- name: beat
-- It is alive.
UPDATE worker SET beats = beats + 1 WHERE id = ? AND dead_at IS NULL RETURNING beats

-- name: delete_worker
-- It has left; one that was declared dead stays so.
DELETE FROM worker WHERE id = ? AND dead_at IS NULL

-- name: bury_worker
-- It is dead, whether it was registered or not; remembered for a day, so that it is refused when it wakes.
INSERT INTO worker (id, host, pid, started_at, dead_at) VALUES (:dead, '', 0, :now, :now)
ON CONFLICT (id) DO UPDATE SET dead_at = coalesce(dead_at, :now)

-- name: forget_dead
-- Nobody sleeps for longer than a day.
DELETE FROM worker WHERE dead_at < :now - 86400000

-- name: select_dead_worker
-- Whether a worker was declared dead.
SELECT 1 FROM worker WHERE id = ? AND dead_at IS NOT NULL

-- name: select_workers
-- Who is registered, the oldest first.
SELECT id, host, pid, started_at, beats FROM worker WHERE dead_at IS NULL ORDER BY started_at, id

-- name: select_owners
-- Who owns unfinished turns or runs jobs.
SELECT DISTINCT owner FROM turn
WHERE phase NOT IN ('Done', 'Failed') AND phase IN ('Accepted', 'ContextPrepared', 'Responding') AND owner IS NOT NULL
UNION SELECT owner FROM job WHERE state = 'running' AND owner IS NOT NULL

-- name: take_turns
-- Unfinished turns change hands.
UPDATE turn SET owner = :by WHERE owner = :dead AND phase NOT IN ('Done', 'Failed')
  AND phase IN ('Accepted', 'ContextPrepared', 'Responding') RETURNING id, turn_seq

-- name: select_unfinished_of
-- Unfinished turns of a dead worker.
SELECT id FROM turn WHERE owner = :dead AND phase NOT IN ('Done', 'Failed')
  AND phase IN ('Accepted', 'ContextPrepared', 'Responding')

-- name: take_turn
-- An unfinished turn changes hands.
UPDATE turn SET owner = :by WHERE id = :id AND owner = :dead

-- name: put_back_jobs
-- Jobs a dead worker ran wait again, a little longer each time: perhaps it was the job that killed it. What can be
-- done without is given up in the end; committing a turn never is.
UPDATE job SET owner = NULL, run_at = :now + 1000 * (attempts - 1), updated_at = :now,
  last_error = 'The worker that ran it died.',
  state = iif(attempts >= :most AND job_type <> 'summarize_turn', 'failed', 'queued')
WHERE state = 'running' AND owner = :dead RETURNING id
