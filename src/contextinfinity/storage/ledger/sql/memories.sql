-- Facts kept across conversations. Every statement begins with whose they are.

-- name: select_owner
-- The key of an owner.
SELECT key FROM memory_owner WHERE org_id = ? AND user_id = ?

-- name: select_many_memories
-- Whether an owner has more memories than this.
SELECT 1 FROM memory WHERE owner_key = ? LIMIT 1 OFFSET ?

-- name: insert_owner
-- An owner, when something of theirs is first kept.
INSERT INTO memory_owner (org_id, user_id) VALUES (?, ?) RETURNING key

-- name: select_forgotten
-- When those words were forgotten.
SELECT max(forgotten_at) FROM forgotten WHERE owner_key = :owner AND hash = :hash AND thread IN (x'', :thread)

-- name: forget_words
-- From now on no earlier turn brings them back.
INSERT INTO forgotten (owner_key, hash, thread, forgotten_at) VALUES (:owner, :hash, :thread, :at)
ON CONFLICT DO UPDATE SET forgotten_at = max(forgotten_at, excluded.forgotten_at)

-- name: allow_words
-- A person wants them again.
DELETE FROM forgotten WHERE owner_key = :owner AND hash = :hash AND thread IN (x'', :thread)

-- name: select_same
-- The same words on the same shelf: the living one first, then what was said last.
SELECT key, valid_from, superseded_by FROM memory WHERE owner_key = ? AND hash = ? AND thread = ?
ORDER BY superseded_by IS NULL DESC, valid_from DESC LIMIT 1

-- name: insert_memory
-- A fact.
INSERT INTO memory (id, owner_key, thread, content, hash, kind, about, origin, confidence, weight, created_at,
  valid_from, valid_to, namespace, vector)
VALUES (:id, :owner, :thread, :content, :hash, :kind, :about, :origin, :confidence, :weight, :said_at, :said_at,
  :valid_to, :namespace, :vector) RETURNING key

-- name: say_again
-- It was said again, perhaps with more weight.
UPDATE memory SET valid_from = max(valid_from, :said_at), valid_to = coalesce(:valid_to, valid_to),
  weight = max(weight, :weight), confidence = max(confidence, :confidence),
  origin = CASE WHEN origin = 'drawn' OR :origin = 'person' THEN :origin ELSE origin END,
  kind = CASE about WHEN '' THEN :kind ELSE kind END, about = CASE about WHEN '' THEN :about ELSE about END
WHERE key = :key

-- name: insert_source
-- A turn said it.
INSERT INTO memory_source (memory_key, turn_id, session_id, branch_id, turn_seq, start, end, said_at)
SELECT :key, t.id, t.session_id, t.branch_id, t.turn_seq, :start, :end, :said_at FROM turn AS t WHERE t.id = :turn_id
ON CONFLICT DO UPDATE SET start = excluded.start, end = excluded.end

-- name: insert_word
-- A word it is found by.
INSERT OR IGNORE INTO memory_word (owner_key, term, memory_key) VALUES (?, ?, ?)

-- name: delete_memory_words
-- All of them.
DELETE FROM memory_word WHERE memory_key = ?

-- name: select_rivals
-- What else is said to be true of the same thing.
SELECT m.key, m.id, m.about, m.valid_from FROM json_each(:abouts) AS k
CROSS JOIN memory AS m INDEXED BY memory_by_about ON m.owner_key = :owner AND m.about = k.value AND m.about <> ''
WHERE m.superseded_by IS NULL AND m.thread = :thread AND m.hash <> :hash

-- name: supersede
-- Something else is true since then.
UPDATE memory SET superseded_by = :by, superseded_at = :at WHERE key = :key

-- name: select_revision
-- How many memories an owner has, the newest, and when one was last said or edited.
SELECT count(*), coalesce(max(key), 0), coalesce(max(valid_from), 0) FROM memory WHERE owner_key = ?

-- name: select_later_processed
-- Turns of an owner on other branches that were accepted after one and whose memories may have been extracted.
SELECT t.id FROM turn AS t JOIN session AS s ON s.id = t.session_id
WHERE t.id > :turn_id AND t.branch_id <> :branch_id AND (t.phase IN ('Indexed', 'Done') OR t.degraded)
  AND s.org_id = :org_id AND s.user_id = :user_id AND (:session_id IS NULL OR s.id = :session_id)
ORDER BY t.id LIMIT :limit

-- name: select_memories_of_turn
-- What a turn was said to say.
SELECT m.key, m.hash, m.origin FROM memory_source AS s JOIN memory AS m ON m.key = s.memory_key
WHERE s.turn_id = ?

-- name: delete_source
-- It does not.
DELETE FROM memory_source WHERE memory_key = ? AND turn_id = ?

-- name: select_memories
-- Memories by their ids.
SELECT o.org_id, o.user_id, m.* FROM json_each(:ids) AS k
CROSS JOIN memory AS m ON m.id = unhex(k.value) JOIN memory_owner AS o ON o.key = m.owner_key
WHERE +m.owner_key = :owner ORDER BY k.key

-- name: select_memories_by_key
-- Memories by their keys, as far as a turn may have them.
SELECT o.org_id, o.user_id, m.* FROM json_each(:keys) AS k CROSS JOIN memory AS m NOT INDEXED ON m.key = k.value
JOIN memory_owner AS o ON o.key = m.owner_key
WHERE m.owner_key = :owner AND m.thread IN (x'', :thread)
  AND (m.valid_to IS NULL OR m.valid_to > :at) AND max(m.valid_from, coalesce(m.last_placed_at, 0)) >= :oldest
ORDER BY k.key

-- name: select_standing
-- What matters most on a shelf.
SELECT o.org_id, o.user_id, m.* FROM memory AS m INDEXED BY memory_standing JOIN memory_owner AS o ON o.key = m.owner_key
WHERE m.owner_key = :owner AND m.thread = :thread AND m.superseded_by IS NULL
  AND (m.valid_to IS NULL OR m.valid_to > :at) AND max(m.valid_from, coalesce(m.last_placed_at, 0)) >= :oldest
ORDER BY m.weight DESC, m.valid_from DESC LIMIT :limit

-- name: select_superseded
-- What some made untrue, as far as it would hold without them.
SELECT o.org_id, o.user_id, m.* FROM json_each(:ids) AS k
CROSS JOIN memory AS m ON m.superseded_by = unhex(k.value) JOIN memory_owner AS o ON o.key = m.owner_key
WHERE +m.owner_key = :owner AND (m.valid_to IS NULL OR m.valid_to > :at)
  AND max(m.valid_from, coalesce(m.last_placed_at, 0)) >= :oldest

-- name: select_sources
-- The turns that said them, the last first, the line their session goes on with, and when they are past their time:
-- at once while the session is being deleted.
SELECT s.memory_key, s.turn_id, s.start, s.end, s.session_id, s.branch_id, s.turn_seq, x.active_branch,
  CASE WHEN EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.session_id) THEN 0 ELSE
  (SELECT t.created_at + e.ttl FROM expiry AS e JOIN turn AS t ON t.id = s.turn_id WHERE e.session_id = s.session_id) END
FROM json_each(?) AS k JOIN memory_source AS s ON s.memory_key = k.value JOIN session AS x ON x.id = s.session_id
ORDER BY s.said_at DESC

-- name: count_memory_words
-- How many memories have each word.
SELECT k.value, (SELECT count(*) FROM memory_word AS w WHERE w.owner_key = :owner AND w.term = k.value)
FROM json_each(:terms) AS k

-- name: select_having
-- Memories with a word.
SELECT memory_key FROM memory_word WHERE owner_key = ? AND term = ?

-- name: list_memories
-- The newest, before a place, without those that only conversations said that are being deleted.
SELECT o.org_id, o.user_id, m.* FROM memory AS m JOIN memory_owner AS o ON o.key = m.owner_key
WHERE m.owner_key = :owner AND (m.created_at, m.id) < (:before, :id) AND (:thread IS NULL OR m.thread = :thread)
  AND (:superseded OR m.superseded_by IS NULL)
  AND (m.origin = 'person' OR NOT EXISTS (SELECT 1 FROM memory_source AS s JOIN deletion AS d ON d.session_id = s.session_id
      WHERE s.memory_key = m.key)
    OR EXISTS (SELECT 1 FROM memory_source AS s WHERE s.memory_key = m.key
      AND s.session_id NOT IN (SELECT session_id FROM deletion)))
ORDER BY m.created_at DESC, m.id DESC LIMIT :limit

-- name: edit_memory
-- Other words, by a person's hand.
UPDATE memory SET content = :content, hash = :hash, kind = :kind, about = :about, origin = 'person', confidence = 1.0,
  valid_from = :said_at, valid_to = :valid_to, weight = max(weight, :weight), superseded_by = NULL,
  superseded_at = NULL, namespace = :namespace, vector = :vector WHERE key = :key

-- name: select_twins
-- Others with the same words on the same shelf.
SELECT key, id FROM memory WHERE owner_key = :owner AND hash = :hash AND thread = :thread AND key <> :key

-- name: take_sources
-- The turns that said one said the other.
INSERT OR IGNORE INTO memory_source (memory_key, turn_id, session_id, branch_id, turn_seq, start, end, said_at)
SELECT :key, turn_id, session_id, branch_id, turn_seq, start, end, said_at FROM memory_source WHERE memory_key = :twin

-- name: take_superseded
-- What one made untrue the other does.
UPDATE memory SET superseded_by = :id WHERE superseded_by = :twin_id

-- name: select_hashes
-- The words of some memories.
SELECT m.hash FROM json_each(:ids) AS k CROSS JOIN memory AS m ON m.id = unhex(k.value)
WHERE +m.owner_key = :owner AND (:thread IS NULL OR m.thread = :thread)

-- name: delete_memories
-- All that has those words, on one shelf or (NULL) on any.
DELETE FROM memory WHERE owner_key = :owner AND hash = :hash AND (:thread IS NULL OR thread = :thread) RETURNING id

-- name: delete_memory
-- One, whoever said it.
DELETE FROM memory WHERE key = ?

-- name: mark_placed
-- It stood in a prompt; noted to the hour.
UPDATE memory SET last_placed_at = :at WHERE key = :key

-- name: select_unmarked
-- Those of some memories that were not placed in the hour before.
SELECT m.key FROM json_each(:ids) AS k CROSS JOIN memory AS m ON m.id = unhex(k.value)
WHERE +m.owner_key = :owner AND coalesce(m.last_placed_at, 0) < :at - 3600000

-- name: select_expired_memories
-- Whether something was neither said nor shown since then.
SELECT 1 FROM memory WHERE owner_key = :owner AND max(valid_from, coalesce(last_placed_at, 0)) < :oldest LIMIT 1

-- name: delete_expired
-- Neither said nor shown since then.
DELETE FROM memory WHERE owner_key = :owner AND max(valid_from, coalesce(last_placed_at, 0)) < :oldest RETURNING key

-- name: select_memory
-- One by its key.
SELECT o.org_id, o.user_id, m.* FROM memory AS m JOIN memory_owner AS o ON o.key = m.owner_key WHERE m.key = ?

-- name: select_turn_exists
-- Whether a turn exists.
SELECT 1 FROM turn WHERE id = ?

-- name: select_memory_time
-- A memory's id, and since when it is valid.
SELECT id, valid_from FROM memory WHERE key = ?
