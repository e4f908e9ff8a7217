-- Made from the migrations: read this, but change those.

CREATE TRIGGER blob_in_use_stays BEFORE DELETE ON blob
WHEN EXISTS (SELECT 1 FROM blob_use WHERE hash = OLD.hash)
BEGIN SELECT raise(ABORT, 'immutable: a blob that a message shows stays'); END;

CREATE TRIGGER blob_is_immutable BEFORE UPDATE OF hash, body ON blob
BEGIN SELECT raise(ABORT, 'immutable: a blob never changes'); END;

CREATE TRIGGER blob_is_kept_once BEFORE INSERT ON blob
WHEN EXISTS (SELECT 1 FROM blob WHERE hash = NEW.hash AND body <> NEW.body)
BEGIN SELECT raise(ABORT, 'immutable: other bytes are there under that hash'); END;

CREATE TRIGGER branch_goes_on BEFORE UPDATE OF head_seq, last_turn_seq ON branch
WHEN NEW.head_seq < OLD.head_seq OR NEW.last_turn_seq < OLD.last_turn_seq
BEGIN SELECT raise(ABORT, 'head: a branch never goes back; fork it instead'); END;

CREATE TRIGGER branch_is_begun_once BEFORE INSERT ON branch
WHEN EXISTS (SELECT 1 FROM branch WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'immutable: that branch is there already'); END;

CREATE TRIGGER branch_origin_is_immutable BEFORE UPDATE OF id, session_id, parent_id, fork_seq, base_state ON branch
WHEN (NEW.id, NEW.session_id, NEW.parent_id, NEW.fork_seq, NEW.base_state)
  IS NOT (OLD.id, OLD.session_id, OLD.parent_id, OLD.fork_seq, OLD.base_state)
BEGIN SELECT raise(ABORT, 'immutable: where a branch began never changes'); END;

CREATE TRIGGER branch_stays BEFORE DELETE ON branch
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a branch is deleted only with a deletion of its session'); END;

CREATE TRIGGER head_is_a_state_of_the_session BEFORE UPDATE OF head_state, head_seq ON branch
WHEN NOT EXISTS (SELECT 1 FROM state
  WHERE id = NEW.head_state AND state_seq = NEW.head_seq AND session_id = NEW.session_id)
BEGIN SELECT raise(ABORT, 'head: a branch points only to a state of its session, with that state''s number'); END;

CREATE TRIGGER chunk_is_immutable BEFORE UPDATE ON chunk
BEGIN SELECT raise(ABORT, 'immutable: a chunk never changes; index the turn again'); END;

CREATE TRIGGER chunk_is_indexed_once BEFORE INSERT ON chunk
WHEN EXISTS (SELECT 1 FROM chunk WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM chunk WHERE key = NEW.key)
BEGIN SELECT raise(IGNORE); END;

CREATE TRIGGER chunk_stays BEFORE DELETE ON chunk
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
  AND NOT EXISTS (SELECT 1 FROM recut WHERE turn_id = OLD.turn_id)
BEGIN SELECT raise(ABORT, 'immutable: a chunk goes with its session, or when its turn is cut anew'); END;

CREATE TRIGGER conversation_turns_are_written INSTEAD OF INSERT ON conversation_turns
BEGIN
  SELECT raise(ABORT, 'session_id: it must be a UUID in lower case with hyphens')
  WHERE NEW.session_id IS NULL OR NOT (length(NEW.session_id) = 36 AND substr(NEW.session_id, 9, 1) || substr(NEW.session_id, 14, 1) || substr(NEW.session_id, 19, 1) || substr(NEW.session_id, 24, 1)
    = '----' AND length(replace(NEW.session_id, '-', '')) = 32 AND replace(NEW.session_id, '-', '') NOT GLOB '*[^0-9a-f]*');
  SELECT raise(ABORT, 'id: it must be a UUID in lower case with hyphens')
  WHERE NEW.id IS NOT NULL AND NOT (length(NEW.id) = 36 AND substr(NEW.id, 9, 1) || substr(NEW.id, 14, 1) || substr(NEW.id, 19, 1) || substr(NEW.id, 24, 1)
    = '----' AND length(replace(NEW.id, '-', '')) = 32 AND replace(NEW.id, '-', '') NOT GLOB '*[^0-9a-f]*');
  SELECT raise(ABORT, 'user_id: it must have 1 to 128 characters')
  WHERE coalesce(length(NEW.user_id), 0) NOT BETWEEN 1 AND 128;
  SELECT raise(ABORT, 'user_id: the session is another user''s')
  WHERE EXISTS (SELECT 1 FROM session WHERE uuid = NEW.session_id AND user_id <> NEW.user_id);
  SELECT raise(ABORT, 'query_text: it must not be blank') FROM blank_sign
  WHERE trim(coalesce(NEW.query_text, ''), signs) = '' OR trim(hex(NEW.query_text), '0') = '';
  SELECT raise(ABORT, 'query_text: it has more than 1,000,000 characters') WHERE length(NEW.query_text) > 1000000;
  SELECT raise(ABORT, 'response_text: it must not be blank') FROM blank_sign
  WHERE trim(coalesce(NEW.response_text, ''), signs) = '' OR trim(hex(NEW.response_text), '0') = '';
  SELECT raise(ABORT, 'response_text: it has more than 1,000,000 characters') WHERE length(NEW.response_text) > 1000000;
  SELECT raise(ABORT, 'metadata: it must be a JSON object')
  WHERE NEW.metadata IS NOT NULL AND NOT CASE WHEN json_valid(NEW.metadata) THEN json_type(NEW.metadata) = 'object' END;
  SELECT raise(ABORT, 'created_at: it must be a time in ISO 8601')
  WHERE NEW.created_at IS NOT NULL AND julianday(NEW.created_at) IS NULL;
  SELECT raise(ABORT, 'turn_number: it must be a whole number over 0, at most 1,000,000,000')
  WHERE NEW.turn_number IS NOT NULL
    AND (typeof(NEW.turn_number) <> 'integer' OR NEW.turn_number NOT BETWEEN 1 AND 1000000000);

  INSERT INTO session (id, org_id, user_id, kind, ttl_hours, active_branch, created_at, updated_at)
  SELECT CAST(
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 1, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 3, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 5, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 7, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 10, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 12, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 15, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 17, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 20, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 22, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 25, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 27, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 29, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 31, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 33, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.session_id, 35, 2)) AS BLOB),
    '', NEW.user_id, 'chat', 24.0, randomblob(16), CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  WHERE NOT EXISTS (SELECT 1 FROM session WHERE uuid = NEW.session_id);
  INSERT INTO state (id, session_id, branch_id, state_seq, turn_seq, covers_turn_seq, reason, token_count_est,
    created_at, schema_version)
  SELECT randomblob(16), s.id, s.active_branch, 0, 0, 0, 'root', 0, s.created_at, 1 FROM session AS s
  WHERE s.uuid = NEW.session_id AND NOT EXISTS (SELECT 1 FROM branch WHERE id = s.active_branch);
  INSERT INTO branch (id, session_id, fork_seq, base_state, head_state, head_seq, last_turn_seq, label, created_at)
  SELECT s.active_branch, s.id, 0, st.id, st.id, 0, coalesce(
    (SELECT max(seq) FROM tombstone WHERE session_id = s.id AND kind = 'turn'), 0), 'main', s.created_at
  FROM session AS s JOIN state AS st ON st.branch_id = s.active_branch AND st.state_seq = 0
  WHERE s.uuid = NEW.session_id AND NOT EXISTS (SELECT 1 FROM branch WHERE id = s.active_branch);

  SELECT raise(ABORT, 'turn_number: the session has a turn of that number')
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN turn AS t ON t.branch_id = b.id AND t.turn_seq = NEW.turn_number WHERE s.uuid = NEW.session_id;
  SELECT raise(ABORT, 'turn_number: a turn of that number was deleted, or stands in a summary; numbers are not reused')
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN state AS head ON head.id = b.head_state
  WHERE s.uuid = NEW.session_id AND (NEW.turn_number <= head.covers_turn_seq OR EXISTS (SELECT 1 FROM tombstone AS d
    WHERE d.session_id = s.id AND d.kind = 'turn' AND d.seq = NEW.turn_number));
  SELECT raise(ABORT, 'session_id: a turn of this session is being answered, or the session is being deleted')
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
  WHERE s.uuid = NEW.session_id AND (EXISTS (SELECT 1 FROM deletion AS d WHERE d.session_id = s.id)
    OR EXISTS (SELECT 1 FROM turn AS t WHERE t.branch_id = b.id AND t.phase NOT IN ('Done', 'Failed')
      AND t.phase IN ('Accepted', 'ContextPrepared', 'Responding', 'ResponseFinalized')));

  INSERT INTO message (session_id, role, text, content_hash)
  SELECT id, 'user', NEW.query_text, x'' FROM session WHERE uuid = NEW.session_id;
  INSERT INTO message (session_id, role, text, content_hash)
  SELECT id, 'assistant', NEW.response_text, x'' FROM session WHERE uuid = NEW.session_id;
  UPDATE word_state SET messages = messages + 2 WHERE one = 1;
  INSERT INTO state (id, session_id, branch_id, state_seq, parent_id, turn_seq, covers_turn_seq, reason, summary, pins,
    token_count_est, created_at, schema_version)
  SELECT randomblob(16), s.id, b.id, b.head_seq + 1, head.id,
    max(b.last_turn_seq, coalesce(NEW.turn_number, b.last_turn_seq + 1)), head.covers_turn_seq, 'record', head.summary,
    head.pins, head.token_count_est, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER),
    head.schema_version
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN state AS head ON head.id = b.head_state WHERE s.uuid = NEW.session_id;
  INSERT INTO turn (id, session_id, branch_id, turn_seq, phase, outcome, state_before, state_after, user_message, answer,
    metadata, created_at, updated_at)
  SELECT CASE WHEN NEW.id IS NULL THEN randomblob(16) ELSE CAST(
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 1, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 3, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 5, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 7, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 10, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 12, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 15, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 17, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 20, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 22, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 25, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 27, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 29, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 31, 2)) ||
      (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 33, 2)) || (SELECT byte FROM hex_byte WHERE pair = substr(NEW.id, 35, 2)) AS BLOB) END,
    s.id, b.id, coalesce(NEW.turn_number, b.last_turn_seq + 1), 'Done', 'completed', b.head_state, st.id,
    (SELECT max(key) - 1 FROM message), (SELECT max(key) FROM message), json(NEW.metadata),
    CAST(round((min(julianday('now'), coalesce(julianday(NEW.created_at), julianday('now'))) - 2440587.5) * 86400000)
      AS INTEGER),
    CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL
    JOIN state AS st ON st.branch_id = b.id AND st.state_seq = b.head_seq + 1 WHERE s.uuid = NEW.session_id;
  UPDATE branch SET (head_state, head_seq, last_turn_seq) = (
    SELECT st.id, st.state_seq, st.turn_seq FROM state AS st
    WHERE st.branch_id = branch.id AND st.state_seq = branch.head_seq + 1)
  WHERE parent_id IS NULL AND session_id = (SELECT id FROM session WHERE uuid = NEW.session_id);
  UPDATE session SET updated_at = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  WHERE uuid = NEW.session_id;
END;

CREATE TRIGGER gone_memory_hands_on_what_it_replaced AFTER DELETE ON memory
WHEN OLD.superseded_by IS NOT NULL
BEGIN
  UPDATE memory SET superseded_by = OLD.superseded_by, superseded_at = OLD.superseded_at WHERE superseded_by = OLD.id;
END;

CREATE TRIGGER gone_memory_takes_its_words AFTER DELETE ON memory
BEGIN
  DELETE FROM memory_word WHERE memory_key = OLD.key;
  DELETE FROM memory_source WHERE memory_key = OLD.key;
END;

CREATE TRIGGER memory_goes_with_its_last_source AFTER DELETE ON memory_source
WHEN NOT EXISTS (SELECT 1 FROM memory_source WHERE memory_key = OLD.memory_key)
BEGIN
  UPDATE memory SET superseded_by = then_true.id, superseded_at = then_true.valid_from
  FROM (SELECT old.key, w.id, w.valid_from FROM memory AS gone JOIN memory AS old ON old.superseded_by = gone.id
      LEFT JOIN memory AS w ON w.key = (SELECT r.key FROM memory AS r
        WHERE r.owner_key = old.owner_key AND r.about = old.about AND r.about <> '' AND r.thread = old.thread
          AND r.key NOT IN (old.key, gone.key) AND (r.superseded_by IS NULL OR (r.superseded_by = gone.id
            AND (r.valid_from, r.key) > (old.valid_from, old.key)))
        ORDER BY r.superseded_by IS NULL DESC, r.valid_from DESC, r.key DESC LIMIT 1)
    WHERE gone.key = OLD.memory_key AND gone.superseded_by IS NULL AND gone.origin <> 'person') AS then_true
  WHERE memory.key = then_true.key;
  DELETE FROM memory WHERE key = OLD.memory_key AND origin <> 'person';
END;

CREATE TRIGGER deleted_message_takes_its_words AFTER DELETE ON message
BEGIN
  UPDATE word_scope SET messages = messages - (SELECT count(*) FROM keyword_docsize WHERE id = 4 * OLD.key),
    places = places - (SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE token = char(0xE100) || lower(hex(OLD.session_id));
  UPDATE word_state SET epoch = epoch + 1, stale = 1, messages = messages - 1,
    indexed = indexed - (SELECT count(*) FROM keyword_docsize WHERE id = 4 * OLD.key),
    places = places - (SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE one = 1;
  DELETE FROM keyword WHERE rowid IN (
    SELECT id FROM keyword_docsize WHERE id BETWEEN 4 * OLD.key AND 4 * OLD.key + 3);
END;

CREATE TRIGGER message_is_immutable BEFORE UPDATE ON message
BEGIN SELECT raise(ABORT, 'immutable: a message never changes; record a new one'); END;

CREATE TRIGGER message_is_said_once BEFORE INSERT ON message
WHEN EXISTS (SELECT 1 FROM message WHERE key = NEW.key)
BEGIN SELECT raise(ABORT, 'immutable: that message is there already'); END;

CREATE TRIGGER message_stays BEFORE DELETE ON message
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a message is deleted only with a deletion of its session'); END;

CREATE TRIGGER origin_is_immutable BEFORE UPDATE ON origin
BEGIN SELECT raise(ABORT, 'immutable: where a message came from never changes'); END;

CREATE TRIGGER origin_is_noted_once BEFORE INSERT ON origin
WHEN EXISTS (SELECT 1 FROM origin WHERE message_key = NEW.message_key AND place = NEW.place)
  OR EXISTS (SELECT 1 FROM origin
    WHERE mark = NEW.mark AND session_id = NEW.session_id AND external_id = NEW.external_id)
BEGIN SELECT raise(ABORT, 'immutable: that origin is there already'); END;

CREATE TRIGGER origin_stays BEFORE DELETE ON origin
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: an origin is deleted only with a deletion of its session'); END;

CREATE TRIGGER plan_is_immutable BEFORE UPDATE ON plan
BEGIN SELECT raise(ABORT, 'immutable: a plan never changes'); END;

CREATE TRIGGER plan_is_made_once BEFORE INSERT ON plan
WHEN EXISTS (SELECT 1 FROM plan WHERE turn_id = NEW.turn_id AND step_index = NEW.step_index)
BEGIN SELECT raise(ABORT, 'immutable: that plan is there already'); END;

CREATE TRIGGER plan_stays BEFORE DELETE ON plan
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a plan is deleted only with a deletion of its session'); END;

CREATE TRIGGER recut_turn_is_read_anew AFTER DELETE ON recut
BEGIN UPDATE word_state SET epoch = epoch + 1 WHERE one = 1; END;

CREATE TRIGGER request_is_immutable BEFORE UPDATE ON request
BEGIN SELECT raise(ABORT, 'immutable: a key names one request for ever'); END;

CREATE TRIGGER response_is_immutable BEFORE UPDATE ON response
BEGIN SELECT raise(ABORT, 'immutable: a raw reply may be pruned, never changed'); END;

CREATE TRIGGER response_is_kept_once BEFORE INSERT ON response
WHEN EXISTS (SELECT 1 FROM response WHERE step_id = NEW.step_id)
BEGIN SELECT raise(ABORT, 'immutable: that raw reply is there already'); END;

CREATE TRIGGER deleted_session_does_not_expire AFTER DELETE ON session
BEGIN DELETE FROM expiry WHERE session_id = OLD.id; END;

CREATE TRIGGER deleted_session_stays_its_owners BEFORE INSERT ON session
WHEN EXISTS (SELECT 1 FROM tombstone AS d WHERE d.id = NEW.id AND d.kind = 'session' AND d.user_id IS NOT NULL
  AND (d.org_id, d.user_id) <> (NEW.org_id, NEW.user_id))
BEGIN SELECT raise(ABORT, 'user_id: a session of that id was another user''s'); END;

CREATE TRIGGER session_is_made_once BEFORE INSERT ON session
WHEN EXISTS (SELECT 1 FROM session WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'immutable: that session is there already'); END;

CREATE TRIGGER session_stays BEFORE DELETE ON session
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.id)
BEGIN SELECT raise(ABORT, 'immutable: a session is deleted only with a deletion'); END;

CREATE TRIGGER session_will_expire AFTER INSERT ON session
WHEN NEW.ttl_hours IS NOT NULL
BEGIN
  INSERT INTO expiry VALUES (NEW.id, CAST(min(NEW.ttl_hours, 8760000.0) * 3600000 AS INTEGER),
    NEW.created_at + CAST(min(NEW.ttl_hours, 8760000.0) * 3600000 AS INTEGER));
END;

CREATE TRIGGER state_is_committed_once BEFORE INSERT ON state
WHEN EXISTS (SELECT 1 FROM state WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM state WHERE branch_id = NEW.branch_id AND state_seq = NEW.state_seq)
BEGIN SELECT raise(ABORT, 'immutable: that state, or one of its number, is there already'); END;

CREATE TRIGGER state_is_immutable BEFORE UPDATE ON state
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
  OR NEW.summary IS NOT NULL OR NEW.covers_turn_seq > OLD.covers_turn_seq
  OR (NEW.id, NEW.session_id, NEW.branch_id, NEW.state_seq, NEW.parent_id, NEW.turn_seq, NEW.reason, NEW.pins,
    NEW.created_at, NEW.schema_version) IS NOT (OLD.id, OLD.session_id, OLD.branch_id, OLD.state_seq, OLD.parent_id,
    OLD.turn_seq, OLD.reason, OLD.pins, OLD.created_at, OLD.schema_version)
BEGIN SELECT raise(ABORT, 'immutable: a state never changes; commit a new one'); END;

CREATE TRIGGER state_stays BEFORE DELETE ON state
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a state is deleted only with a deletion of its session'); END;

CREATE TRIGGER step_end_is_immutable BEFORE UPDATE ON step
WHEN OLD.outcome IS NOT NULL
BEGIN SELECT raise(ABORT, 'immutable: a step ends once'); END;

CREATE TRIGGER step_is_opened_once BEFORE INSERT ON step
WHEN EXISTS (SELECT 1 FROM step WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM step WHERE turn_id = NEW.turn_id AND step_index = NEW.step_index)
BEGIN SELECT raise(ABORT, 'immutable: that step, or one in its place, is there already'); END;

CREATE TRIGGER step_stays BEFORE DELETE ON step
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a step is deleted only with a deletion of its session'); END;

CREATE TRIGGER text_is_immutable BEFORE UPDATE OF hash, body ON text
BEGIN SELECT raise(ABORT, 'immutable: a shared text never changes'); END;

CREATE TRIGGER text_is_kept_once BEFORE INSERT ON text
WHEN EXISTS (SELECT 1 FROM text WHERE hash = NEW.hash) OR EXISTS (SELECT 1 FROM text WHERE key = NEW.key)
BEGIN SELECT raise(ABORT, 'immutable: that text is there already'); END;

CREATE TRIGGER token_stays BEFORE DELETE ON token
BEGIN SELECT raise(ABORT, 'a token is revoked, never removed: without any, a server would be open to all'); END;

CREATE TRIGGER tombstone_stays BEFORE DELETE ON tombstone
BEGIN SELECT raise(ABORT, 'immutable: that something was deleted is never forgotten'); END;

CREATE TRIGGER chat_turn_is_not_blank BEFORE INSERT ON turn
WHEN NEW.phase = 'Done' AND EXISTS (SELECT 1 FROM session WHERE id = NEW.session_id AND kind = 'chat')
  AND (NEW.answer IS NULL OR EXISTS (SELECT 1 FROM message AS m, blank_sign AS b
    WHERE m.key IN (NEW.user_message, NEW.answer) AND m.text IS NOT NULL
      AND (trim(m.text, b.signs) = '' OR trim(hex(m.text), '0') = '')))
BEGIN SELECT raise(ABORT, 'blank: a chat turn has a query and a response, neither of them blank'); END;

CREATE TRIGGER deleted_turn_is_not_to_be_cut AFTER DELETE ON turn
BEGIN DELETE FROM uncut WHERE question = OLD.user_message; END;

CREATE TRIGGER deleted_turn_takes_its_memories AFTER DELETE ON turn
BEGIN DELETE FROM memory_source WHERE turn_id = OLD.id; END;

CREATE TRIGGER ended_turn_is_to_be_cut AFTER UPDATE OF phase, answer ON turn
WHEN (NEW.phase = 'Failed' AND OLD.phase <> 'Failed')
  OR (NEW.phase = 'Indexed' AND OLD.phase = 'StateCommitted' AND NEW.degraded)
  OR (NEW.phase = 'Done' AND NEW.answer IS NOT OLD.answer)
BEGIN INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING; END;

CREATE TRIGGER older_turn_expires_sooner AFTER INSERT ON turn
BEGIN
  UPDATE expiry SET due = NEW.created_at + ttl WHERE session_id = NEW.session_id AND due > NEW.created_at + ttl;
END;

CREATE TRIGGER recorded_turn_is_to_be_cut AFTER INSERT ON turn
WHEN NEW.phase = 'Done'
BEGIN INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING; END;

CREATE TRIGGER turn_answer_is_set_once BEFORE UPDATE OF answer ON turn
WHEN NEW.answer IS NOT OLD.answer AND (OLD.answer IS NOT NULL
  OR (OLD.phase NOT IN ('Accepted', 'ContextPrepared') AND OLD.phase <> 'Responding'
    AND (OLD.phase <> 'Done' OR OLD.outcome IS NOT NULL OR NEW.outcome IS NOT 'completed'
      OR EXISTS (SELECT 1 FROM turn WHERE branch_id = OLD.branch_id AND turn_seq > OLD.turn_seq)
      OR EXISTS (SELECT 1 FROM branch WHERE parent_id = OLD.branch_id AND fork_seq >= OLD.turn_seq))))
BEGIN SELECT raise(ABORT, 'immutable: an answer is set once'); END;

CREATE TRIGGER turn_begins_somewhere BEFORE INSERT ON turn
WHEN NEW.phase NOT IN ('Accepted', 'Done')
BEGIN SELECT raise(ABORT, 'phase: a turn begins as Accepted, or as Done when it was finished elsewhere'); END;

CREATE TRIGGER turn_commit_is_set_once BEFORE UPDATE OF state_after ON turn
WHEN OLD.state_after IS NOT NULL AND NEW.state_after IS NOT OLD.state_after
BEGIN SELECT raise(ABORT, 'immutable: a turn is committed once'); END;

CREATE TRIGGER turn_content_is_immutable
BEFORE UPDATE OF id, session_id, branch_id, turn_seq, user_message, state_before, created_at, retry_of ON turn
WHEN (NEW.id, NEW.session_id, NEW.branch_id, NEW.turn_seq, NEW.user_message, NEW.state_before, NEW.created_at,
    NEW.retry_of) IS NOT (OLD.id, OLD.session_id, OLD.branch_id, OLD.turn_seq, OLD.user_message, OLD.state_before,
    OLD.created_at, OLD.retry_of)
BEGIN SELECT raise(ABORT, 'immutable: where a turn stands and what it asked never change'); END;

CREATE TRIGGER turn_end_is_immutable BEFORE UPDATE OF outcome, error, provider, model, metadata ON turn
WHEN OLD.phase NOT IN ('Accepted', 'ContextPrepared') AND OLD.phase <> 'Responding'
  AND (NEW.outcome, NEW.error, NEW.provider, NEW.model, NEW.metadata)
    IS NOT (OLD.outcome, OLD.error, OLD.provider, OLD.model, OLD.metadata)
  AND NOT (OLD.outcome IS NULL AND NEW.outcome IS 'completed' AND OLD.answer IS NULL AND NEW.answer IS NOT NULL
    AND (NEW.error, NEW.provider, NEW.model, NEW.metadata) IS (OLD.error, OLD.provider, OLD.model, OLD.metadata))
BEGIN SELECT raise(ABORT, 'immutable: how a turn ended never changes'); END;

CREATE TRIGGER turn_is_accepted_once BEFORE INSERT ON turn
WHEN EXISTS (SELECT 1 FROM turn WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM turn WHERE branch_id = NEW.branch_id AND turn_seq = NEW.turn_seq)
BEGIN SELECT raise(ABORT, 'immutable: that turn, or one in its place, is there already'); END;

CREATE TRIGGER turn_phase_follows BEFORE UPDATE OF phase ON turn
WHEN NEW.phase <> OLD.phase AND NOT CASE OLD.phase
  WHEN 'Accepted' THEN NEW.phase IN ('ContextPrepared', 'Failed')
  WHEN 'ContextPrepared' THEN NEW.phase IN ('Responding', 'ResponseFinalized') OR NEW.phase = 'Failed'
  WHEN 'Responding' THEN NEW.phase IN ('ResponseFinalized', 'Failed')
  WHEN 'ResponseFinalized' THEN NEW.phase = 'StateCommitted'
  WHEN 'StateCommitted' THEN NEW.phase = 'Indexed'
  WHEN 'Indexed' THEN NEW.phase = 'Done'
  ELSE 0 END
BEGIN SELECT raise(ABORT, 'phase: a turn cannot go from its phase to that one'); END;

CREATE TRIGGER turn_says_something BEFORE INSERT ON turn
WHEN NOT EXISTS (SELECT 1 FROM message WHERE key = NEW.user_message)
BEGIN SELECT raise(ABORT, 'orphan: a turn begins with a message that is there'); END;

CREATE TRIGGER turn_stays BEFORE DELETE ON turn
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a turn is deleted only with a deletion of its session'); END;
