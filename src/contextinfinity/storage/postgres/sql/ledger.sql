-- Statements of the ledger that PostgreSQL needs in other words than SQLite.

-- name: take_message_keys
-- So many keys for new messages, in ascending order.
SELECT nextval(pg_get_serial_sequence('message', 'key')) FROM generate_series(1, :count)

-- name: insert_retrieval
-- A chunk the prompt held.
INSERT INTO retrieval (turn_id, chunk_id, session_id, similarity, rank) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: insert_request
-- What a request made, written with it. A request that is being written by another transaction raises: this one is run
-- again, and finds it.
INSERT INTO request (key, asked, session_id, turn_id) SELECT k, a, s, t
FROM (VALUES (?::bytea, ?::bytea, ?::bytea, ?::bytea)) AS new (k, a, s, t)
WHERE NOT EXISTS (SELECT 1 FROM request WHERE key = new.k)

-- name: select_idle_texts
-- Texts nothing refers to.
SELECT key, kept_at FROM text WHERE kept_at < :before AND key NOT IN (
  SELECT system FROM session WHERE system IS NOT NULL UNION SELECT summary FROM state WHERE summary IS NOT NULL
  UNION SELECT pins FROM state WHERE pins IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM (SELECT DISTINCT p.tenant, unhex(used.hash) AS hash
    FROM plan AS p CROSS JOIN plan_texts(p.body) AS used (hash)) AS u WHERE u.tenant = text.tenant AND u.hash = text.hash)

-- name: delete_idle_blob
-- Remove a blob, unless it was kept or shown since it was found idle.
DELETE FROM blob AS b USING (VALUES (?::bytea, ?::bigint)) AS idle (hash, kept_at)
WHERE b.hash = idle.hash AND b.kept_at = idle.kept_at
  AND NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.hash = b.hash AND u.tenant = b.tenant)
RETURNING b.hash

-- name: select_idle_blobs
-- Blobs no message of their owner shows.
SELECT hash, kept_at FROM blob AS b WHERE kept_at < :before
  AND NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.hash = b.hash AND u.tenant = b.tenant)

-- name: delete_blob
-- A blob that no message of its owner shows, and that was not kept after it was shown.
DELETE FROM blob AS b WHERE b.hash = :hash AND b.kept_at <= :shown_at
  AND NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.hash = b.hash AND u.tenant = b.tenant)

-- name: keep_blob
-- Keep bytes for an owner, or make those that are there young again.
INSERT INTO blob (hash, media_type, kept_at, body) VALUES (:hash, :media_type, :now, :body)
ON CONFLICT (tenant, hash) DO UPDATE SET kept_at = :now

-- name: use_blob
-- A message shows a blob. One that maintenance kept before its owner was known is copied for the owner of the session.
WITH own AS (SELECT tenant FROM session WHERE id = :session_id),
  copied AS (INSERT INTO blob (tenant, hash, media_type, kept_at, body)
    SELECT own.tenant, b.hash, b.media_type, b.kept_at, b.body FROM own, blob AS b
    WHERE b.hash = :hash AND b.tenant = '00000000-0000-0000-0000-000000000000'
    ON CONFLICT (tenant, hash) DO UPDATE SET kept_at = excluded.kept_at RETURNING hash),
  found AS (SELECT hash FROM copied UNION SELECT b.hash FROM own, blob AS b WHERE b.hash = :hash AND b.tenant = own.tenant)
INSERT INTO blob_use (tenant, hash, message_key, session_id)
SELECT own.tenant, found.hash, :message_key, :session_id FROM own, found RETURNING hash

-- name: select_text_key
-- Where a text is kept for the owner of a session.
SELECT key FROM text WHERE hash = :hash AND tenant = coalesce(current_tenant(),
  (SELECT tenant FROM session WHERE id = :session_id), '00000000-0000-0000-0000-000000000000')

-- name: insert_text
-- Keep a text for the owner of a session.
INSERT INTO text (hash, body, kept_at, tenant) VALUES (:hash, :body, :now, coalesce(current_tenant(),
  (SELECT tenant FROM session WHERE id = :session_id), '00000000-0000-0000-0000-000000000000')) RETURNING key

-- name: select_messages
-- What some messages say.
SELECT m.key, m.role, m.text, m.blocks FROM json_each(?) AS k JOIN message AS m ON m.key = k.value::bigint

-- name: select_said
-- What messages say.
SELECT m.key, m.role, m.text, m.blocks FROM json_each(:messages) AS k JOIN message AS m ON m.key = k.value::bigint

-- name: delete_origins
-- Where they came from.
DELETE FROM origin WHERE message_key IN (SELECT value::bigint FROM json_each(:messages))

-- name: delete_messages
-- What was said.
DELETE FROM message WHERE key IN (SELECT value::bigint FROM json_each(:messages))

-- name: loosen_plan_texts
-- The texts that plans of turns refer to. A front with a summary goes with it; with pins or instructions that no other
-- session has, if the session goes.
INSERT INTO loose_text (key, personal)
SELECT t.key, (coalesce(t.body::json #>> '{is,summary}' <> '', false)
  OR (:whole AND coalesce(json_array_length(t.body::json #> '{is,pinned_facts}'), 0) > 0)
  OR (:whole AND EXISTS (SELECT 1 FROM session AS s JOIN text AS own ON own.key = s.system
    WHERE s.id = :session_id AND instr(t.body::json #>> '{is,system}', own.body) > 0
      AND NOT EXISTS (SELECT 1 FROM session AS o WHERE o.system = s.system AND o.id <> s.id))))::int
FROM (SELECT DISTINCT used.hash, p.tenant FROM json_each(:turns) AS k JOIN plan AS p ON p.turn_id = unhex(k.value)
    CROSS JOIN plan_texts(p.body) AS used (hash)) AS u
  JOIN text AS t ON t.hash = unhex(u.hash) AND t.tenant = u.tenant
ON CONFLICT (key) DO NOTHING

-- name: loosen_fronts
-- The fronts of what is left of a session that repeat a summary that is to go: their plans cannot be rebuilt any more.
INSERT INTO loose_text (key, personal, session_id)
SELECT DISTINCT f.key, 1, :session_id::bytea FROM branch AS b JOIN turn AS t ON t.branch_id = b.id
  JOIN plan AS p ON p.turn_id = t.id JOIN text AS f ON f.hash = unhex(p.body::json #>> '{is,front}') AND f.tenant = p.tenant
WHERE b.session_id = :session_id AND EXISTS (SELECT 1 FROM state AS st JOIN text AS gone ON gone.key = st.summary
  WHERE st.branch_id = :branch_id AND st.covers_turn_seq >= :first
    AND instr(f.body::json #>> '{is,summary}', gone.body) > 0)
ON CONFLICT (key) DO UPDATE SET personal = 1, session_id = excluded.session_id

-- name: select_planned_texts
-- Of the texts to be looked at those that plans refer to, and the sessions of the plans.
SELECT DISTINCT l.key, p.session_id FROM plan AS p CROSS JOIN plan_texts(p.body) AS used (hash)
  JOIN text AS t ON t.hash = unhex(used.hash) AND t.tenant = p.tenant JOIN loose_text AS l ON l.key = t.key

-- name: select_borrowers
-- The messages of the next turns of a branch after each of some places.
SELECT DISTINCT t.user_message, t.answer FROM json_each(:gone) AS k JOIN turn AS t ON t.branch_id = :branch_id
  AND t.turn_seq IN (SELECT n.turn_seq FROM turn AS n WHERE n.branch_id = :branch_id AND n.turn_seq > k.value::bigint
    ORDER BY n.turn_seq LIMIT :limit)

-- name: delete_memories_of_session
-- What was kept for a session alone.
DELETE FROM memory AS m USING session AS s JOIN memory_owner AS o ON o.org_id = s.org_id AND o.user_id = s.user_id
WHERE s.id = ? AND m.thread = s.id AND m.owner_key = o.key

-- name: select_stale
-- How far what was deleted is erased from the files: PostgreSQL's vacuum does that by itself.
SELECT 0

-- name: soil_log
-- Nothing: the write-ahead log is recycled by the server.
SELECT 0

-- name: select_purgeable
-- Whether a backup holds something that is past its time, or a deletion that was not finished.
SELECT 1 FROM deletion UNION ALL SELECT 1 FROM expiry WHERE due <= :now LIMIT 1

-- name: select_around
-- Turns by their ids in hex, and their neighbours on the same branch, each once, in their order.
WITH near AS (
  SELECT DISTINCT t.branch_id, t.turn_seq + d.step AS turn_seq
  FROM json_each(?) AS k JOIN turn AS t ON t.id = unhex(k.value) CROSS JOIN generate_series(-1, 1) AS d (step))
SELECT t.id FROM near JOIN turn AS t ON t.branch_id = near.branch_id AND t.turn_seq = near.turn_seq
ORDER BY t.branch_id, t.turn_seq

-- name: select_origins_read
-- Where messages came from, by their keys.
SELECT o.message_key, o.external_id, o.said_at,
  CASE json_typeof(o.details::json -> 'name') WHEN 'string' THEN o.details::json ->> 'name' END
FROM json_each(?) AS k JOIN origin AS o ON o.message_key = k.value::bigint ORDER BY o.message_key, o.place

-- name: restore_turn
-- A turn that could not be searched as it should can be.
UPDATE turn SET degraded = 0, updated_at = :now WHERE id = :id AND degraded <> 0

-- name: select_unchanged
-- Whether a turn has this owner and phase and was not written since.
SELECT 1 FROM turn WHERE id = ? AND owner = ? AND phase = ? AND updated_at = ? AND cancel_requested = ?::int

-- name: select_turns_read
-- Turns by their ids in hex, with their messages; those that are more than plain text have none here. Not those past
-- their time to live.
SELECT t.id, t.session_id, t.branch_id, t.turn_seq, t.created_at, t.steps, t.user_message, u.text, t.answer, a.text
FROM json_each(?) AS k JOIN turn AS t ON t.id = unhex(k.value)
  JOIN message AS u ON u.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
  JOIN session AS s ON s.id = t.session_id
WHERE (s.ttl_hours IS NULL OR t.created_at + s.ttl_hours * 3600000 > unixepoch('subsec') * 1000)
  AND s.id NOT IN (SELECT session_id FROM deletion)

-- name: note_session
-- Another value of one key of its metadata; :path is $."key".
UPDATE session SET metadata = (coalesce(metadata, '{}')::jsonb
  || jsonb_build_object(substr(:path, 4, length(:path) - 4), :value::jsonb))::text WHERE id = :id

-- name: select_ancestry
-- The branch and its ancestors, with the turn where each left its parent. A branch met twice ends the walk.
WITH RECURSIVE line (id, parent_id, fork_seq, depth) AS (
  SELECT id, parent_id, fork_seq, 0 FROM branch WHERE id = ?
  UNION ALL
  SELECT b.id, b.parent_id, b.fork_seq, depth + 1 FROM branch AS b JOIN line ON b.id = line.parent_id
  WHERE b.fork_seq <= line.fork_seq) CYCLE id SET is_cycle USING path
SELECT id, fork_seq FROM line WHERE NOT is_cycle ORDER BY depth

-- name: begin_end
-- A new branch leaves off where it was begun: after the last turn there that did not fail, if that was answered.
INSERT INTO branch_end (branch_id, session_id, turn_id, turn_seq, is_own, answered, alone)
SELECT :id, s.id, line.id, line.turn_seq, false, r.answered, r.alone FROM (
    SELECT id, session_id, turn_seq, answer FROM turn
    WHERE branch_id = :branch_id AND turn_seq BETWEEN :first AND :last AND phase <> 'Failed'
    ORDER BY turn_seq DESC LIMIT 1) AS line
  JOIN trail AS r ON r.turn_id = line.id JOIN session AS s ON s.id = line.session_id
WHERE line.answer IS NOT NULL AND s.kind = 'thread'

-- name: set_end
-- A branch leaves off here.
INSERT INTO branch_end (branch_id, session_id, turn_id, turn_seq, is_own, answered, alone)
VALUES (:branch_id, :session_id, :turn_id, :turn_seq, true, :answered, :alone)
ON CONFLICT (branch_id) DO UPDATE SET turn_id = excluded.turn_id, turn_seq = excluded.turn_seq, is_own = true,
  answered = excluded.answered, alone = excluded.alone

-- name: join_broken
-- The oldest turn of a request whose connection broke; from now on it is open again.
UPDATE trail SET broken_at = 0 WHERE turn_id = (
  SELECT r.turn_id FROM trail AS r JOIN turn AS t ON t.id = r.turn_id JOIN session AS s ON s.id = r.session_id
  WHERE r.body = :body AND r.broken_at >= :since AND t.phase <> 'Failed' AND t.outcome IS DISTINCT FROM 'cancelled'
    AND s.user_id = :user_id AND s.org_id = :org_id AND NOT EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
  ORDER BY r.turn_id LIMIT 1 FOR UPDATE OF r SKIP LOCKED) RETURNING turn_id

-- name: insert_chunk
-- TX-C: a span of a turn's message; the same words of the same type once.
INSERT INTO chunk (key, id, session_id, branch_id, turn_id, side, start, "end", summary, chunk_type, token_est,
  content_hash, created_at)
VALUES (coalesce(:key, nextval(pg_get_serial_sequence('chunk', 'key'))), :id, :session_id, :branch_id, :turn_id, :side,
  :start, :end, :summary, :chunk_type, :token_est, :content_hash, :now)
ON CONFLICT (id) DO NOTHING RETURNING key

-- name: defer_references
-- Check references when the transaction ends: the vectors of a chunk wait for it to come back.
SET CONSTRAINTS ALL DEFERRED

-- name: bury_worker
-- It is dead, whether it was registered or not; remembered for a day, so that it is refused when it wakes.
INSERT INTO worker AS w (id, host, pid, started_at, dead_at) VALUES (:dead, '', 0, :now, :now)
ON CONFLICT (id) DO UPDATE SET dead_at = coalesce(w.dead_at, :now)

-- name: beat
-- It is alive, by the server's clock.
UPDATE worker SET beats = beats + 1, seen_at = clock_timestamp() WHERE id = ? AND dead_at IS NULL RETURNING beats

-- name: select_live_workers
-- Workers whose last heartbeat is younger than the lease, by the server's clock.
SELECT id FROM worker WHERE dead_at IS NULL AND seen_at > clock_timestamp() - make_interval(secs => ?)

-- name: touch_text
-- It is asked for again; noted to the minute, so that transactions that share a text rarely meet.
UPDATE text AS t SET kept_at = new.kept_at FROM (VALUES (?::bigint, ?::bigint)) AS new (kept_at, key)
WHERE t.key = new.key AND t.kept_at < new.kept_at - 60000

-- name: select_tenant
-- The tenant of an owner.
SELECT tenant_of(?, ?)::text

-- name: add_spending
-- What a step cost its user on a day, in the slot of the connection.
INSERT INTO spending (org_id, user_id, day, dollars, slot)
SELECT org_id, user_id, :day, :dollars, slot() FROM session WHERE id = :session_id
ON CONFLICT (org_id, user_id, day, slot) DO UPDATE SET dollars = spending.dollars + excluded.dollars

-- name: select_spending
-- What a user spent from a day on.
SELECT day, sum(dollars) FROM spending WHERE org_id = ? AND user_id = ? AND day >= ? GROUP BY day
