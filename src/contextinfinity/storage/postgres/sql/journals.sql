-- Journals of streams in progress.

-- name: lock_live_writers
-- Those of some workers that are registered and not declared dead, which nobody can do until this transaction ends.
SELECT id FROM worker WHERE id IN (SELECT value FROM json_each(?)) AND dead_at IS NULL FOR SHARE

-- name: select_steps_written
-- Those of some steps, by their ids in hex, that are written.
SELECT id FROM step WHERE id IN (SELECT unhex(value) FROM json_each(?))

-- name: insert_journal_block
-- Some entries of a journal that follow each other; those of a write whose end was not seen are written again.
INSERT INTO journal_block AS b (step_id, first, last, session_id, tenant, entries)
SELECT id, :first, :last, session_id, tenant, :entries FROM step WHERE id = :step_id
ON CONFLICT (step_id, first) DO UPDATE SET last = excluded.last, entries = excluded.entries WHERE excluded.last > b.last

-- name: notify_journals
-- All hosts hear of new entries.
SELECT pg_notify('contextinfinity_journals', value) FROM json_each(?)

-- name: select_journal_blocks
-- The entries of a journal after a number, and perhaps some before it.
SELECT entries FROM journal_block WHERE step_id = :step_id AND last > :after ORDER BY first

-- name: prune_journals
-- Entries of steps that have ended that were written so many seconds ago.
DELETE FROM journal_block AS b USING step AS s
WHERE b.written_at < now() - make_interval(secs => ?) AND s.id = b.step_id AND s.outcome IS NOT NULL
