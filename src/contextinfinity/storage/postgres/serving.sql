-- Statements that the serving role, under row-level security, runs in other words.

-- name: find_rows
-- The newest rows of the owner that hold all of some words, between two of them, as one text.
SELECT find_own_rows(:tokens, :first, :last, :most)

-- name: find_all_rows
-- All of them.
SELECT find_own_rows(:tokens, :first, :last, NULL)
