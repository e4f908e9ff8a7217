-- Clauses that are added to reads when they are part of a write: the rows they return are locked until it is committed.

-- name: select_unchanged
-- A turn that is about to be written.
FOR NO KEY UPDATE

-- name: select_next_job
-- A job that another worker is taking is passed over.
FOR NO KEY UPDATE OF j SKIP LOCKED
