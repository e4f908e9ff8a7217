-- Memories, as PostgreSQL writes them.

-- name: forget_words
-- From now on no earlier turn brings them back.
INSERT INTO forgotten AS f (owner_key, hash, thread, forgotten_at) VALUES (:owner, :hash, :thread, :at)
ON CONFLICT (owner_key, hash, thread) DO UPDATE SET forgotten_at = greatest(f.forgotten_at, excluded.forgotten_at)

-- name: say_again
-- It was said again, perhaps with more weight.
UPDATE memory SET valid_from = greatest(valid_from, :said_at), valid_to = coalesce(:valid_to, valid_to),
  weight = greatest(weight, :weight), confidence = greatest(confidence, :confidence),
  origin = CASE WHEN origin = 'drawn' OR :origin = 'person' THEN :origin ELSE origin END,
  kind = CASE about WHEN '' THEN :kind ELSE kind END, about = CASE about WHEN '' THEN :about ELSE about END
WHERE key = :key

-- name: insert_source
-- A turn said it.
INSERT INTO memory_source (memory_key, turn_id, session_id, branch_id, turn_seq, start, "end", said_at)
SELECT :key, t.id, t.session_id, t.branch_id, t.turn_seq, :start, :end, :said_at FROM turn AS t WHERE t.id = :turn_id
ON CONFLICT (memory_key, turn_id) DO UPDATE SET start = excluded.start, "end" = excluded."end"

-- name: insert_word
-- A word it is found by.
INSERT INTO memory_word (owner_key, term, memory_key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: take_sources
-- The turns that said one said the other.
INSERT INTO memory_source (memory_key, turn_id, session_id, branch_id, turn_seq, start, "end", said_at)
SELECT :key, turn_id, session_id, branch_id, turn_seq, start, "end", said_at FROM memory_source WHERE memory_key = :twin
ON CONFLICT DO NOTHING

-- name: select_later_processed
-- Turns of an owner on other branches that were accepted after one and whose memories may have been extracted.
SELECT t.id FROM turn AS t JOIN session AS s ON s.id = t.session_id
WHERE t.id > :turn_id AND t.branch_id <> :branch_id AND (t.phase IN ('Indexed', 'Done') OR t.degraded <> 0)
  AND s.org_id = :org_id AND s.user_id = :user_id AND coalesce(s.id = :session_id, true)
ORDER BY t.id LIMIT :limit

-- name: select_memories_by_key
-- Memories by their keys, as far as a turn may have them.
SELECT o.org_id, o.user_id, m.* FROM json_each(:keys) AS k JOIN memory AS m ON m.key = k.value::bigint
JOIN memory_owner AS o ON o.key = m.owner_key
WHERE m.owner_key = :owner AND m.thread IN (x'', :thread)
  AND (m.valid_to IS NULL OR m.valid_to > :at) AND greatest(m.valid_from, coalesce(m.last_placed_at, 0)) >= :oldest
ORDER BY k.key

-- name: select_sources
-- The turns that said them, the last first, the branch their session continues with, and when they are past their time:
-- at once while the session is being deleted.
SELECT s.memory_key, s.turn_id, s.start, s.end, s.session_id, s.branch_id, s.turn_seq, x.active_branch,
  CASE WHEN EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.session_id) THEN 0 ELSE
  (SELECT t.created_at + e.ttl FROM expiry AS e JOIN turn AS t ON t.id = s.turn_id WHERE e.session_id = s.session_id) END
FROM json_each(?) AS k JOIN memory_source AS s ON s.memory_key = k.value::bigint JOIN session AS x ON x.id = s.session_id
ORDER BY s.said_at DESC

-- name: select_expired_memories
-- Whether something was neither said nor shown since then.
SELECT 1 FROM memory WHERE owner_key = :owner AND greatest(valid_from, coalesce(last_placed_at, 0)) < :oldest LIMIT 1

-- name: delete_expired
-- Neither said nor shown since then.
DELETE FROM memory WHERE owner_key = :owner AND greatest(valid_from, coalesce(last_placed_at, 0)) < :oldest RETURNING key

-- name: insert_owner
-- An owner, when something of theirs is first kept.
INSERT INTO memory_owner (org_id, user_id) VALUES (?, ?) RETURNING key
