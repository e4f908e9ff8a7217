-- Statements that a write runs in other words than a read.

-- name: select_owner
-- Memories of an owner are written by one transaction at a time, and on a snapshot that has those of the one before: the
-- row is written, so that a transaction which began earlier is run again.
INSERT INTO memory_owner AS o (org_id, user_id) VALUES (?, ?)
ON CONFLICT (org_id, user_id) DO UPDATE SET user_id = o.user_id RETURNING key
