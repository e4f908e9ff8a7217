-- Deleting: what the index and the file of SQLite keep of deleted rows.

-- name: merge_words
-- Write a part of the index anew, without what was deleted; a number of pages, negative to begin.
INSERT INTO keyword (keyword, rank) VALUES ('merge', ?)

-- name: select_free_pages
-- How many pages of the file hold nothing.
SELECT freelist_count FROM pragma_freelist_count

-- name: delete_borrowed
-- The words that the messages of a turn borrow, and its tool side.
DELETE FROM keyword WHERE rowid IN (SELECT id FROM keyword_docsize
  WHERE id IN (4 * :question + 1, 4 * :question + 3, 4 * coalesce(:answer, :question) + 1))

-- name: select_stale
-- How far what was deleted is wiped out: see ``sweeping``.
SELECT stale FROM word_state WHERE one = 1

-- name: soil_log
-- The log and pages hold something that is being deleted.
UPDATE word_state SET stale = 3 WHERE one = 1 AND (stale = 0 OR stale > 3)

-- name: set_stale
-- Go on to the next state of wiping out.
UPDATE word_state SET stale = :stale WHERE one = 1 AND stale = :was

-- name: select_purgeable
-- Whether a backup holds something that is past its time, or a deletion that was not finished.
SELECT 1 FROM deletion UNION ALL SELECT 1 FROM expiry WHERE due <= :now
UNION ALL SELECT 1 FROM word_state WHERE stale <> 0 LIMIT 1
