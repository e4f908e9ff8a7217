-- Folds: one that could be committed, those there were found at once, and a lane of their own for the work.

CREATE INDEX state_by_fold ON state (branch_id, state_seq, covers_turn_seq, reason) WHERE reason IN ('fold', 'unfold');

CREATE TABLE fold_candidate (           -- a fold that could be committed, one a branch; with a rowid: bodies are long
  branch_id BLOB PRIMARY KEY REFERENCES branch (id),
  session_id BLOB NOT NULL,
  body TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

-- A fold may take long: it holds up no other job of its branch.
DROP INDEX one_running_job;
CREATE UNIQUE INDEX one_running_job ON job (branch_id, job_type = 'fold_branch') WHERE state = 'running';
