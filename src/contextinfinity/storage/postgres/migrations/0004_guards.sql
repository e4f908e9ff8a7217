-- What the database itself refuses: final content is immutable, and rows of a session go only while it is being deleted.

CREATE FUNCTION refuse_unless_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation',
      MESSAGE = format('immutable: a row of %s is deleted only with a deletion of its session', TG_TABLE_NAME);
  END IF;
  RETURN OLD;
END $$;

CREATE TRIGGER branch_stays BEFORE DELETE ON branch FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();
CREATE TRIGGER state_stays BEFORE DELETE ON state FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();
CREATE TRIGGER message_stays BEFORE DELETE ON message FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();
CREATE TRIGGER turn_stays BEFORE DELETE ON turn FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();
CREATE TRIGGER step_stays BEFORE DELETE ON step FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();
CREATE TRIGGER plan_stays BEFORE DELETE ON plan FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();
CREATE TRIGGER origin_stays BEFORE DELETE ON origin FOR EACH ROW EXECUTE FUNCTION refuse_unless_deleted();

CREATE FUNCTION session_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.id) THEN
    RAISE EXCEPTION 'immutable: a session is deleted only with a deletion' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  DELETE FROM expiry WHERE session_id = OLD.id;
  RETURN OLD;
END $$;
CREATE TRIGGER session_stays BEFORE DELETE ON session FOR EACH ROW EXECUTE FUNCTION session_stays();

CREATE FUNCTION chunk_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
      AND NOT EXISTS (SELECT 1 FROM recut WHERE turn_id = OLD.turn_id) THEN
    RAISE EXCEPTION 'immutable: a chunk goes with its session, or when its turn is cut again'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER chunk_stays BEFORE DELETE ON chunk FOR EACH ROW EXECUTE FUNCTION chunk_stays();

CREATE TRIGGER message_is_immutable BEFORE UPDATE ON message
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a message never changes; record a new one');
CREATE TRIGGER chunk_is_immutable BEFORE UPDATE ON chunk
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a chunk never changes; index the turn again');
CREATE TRIGGER plan_is_immutable BEFORE UPDATE ON plan
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a plan never changes');
CREATE TRIGGER response_is_immutable BEFORE UPDATE ON response
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a raw reply may be pruned, never changed');
CREATE TRIGGER origin_is_immutable BEFORE UPDATE ON origin
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: where a message came from never changes');
CREATE TRIGGER request_is_immutable BEFORE UPDATE ON request
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a key names one request for ever');
CREATE TRIGGER text_is_immutable BEFORE UPDATE OF hash, body ON text
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a shared text never changes');
CREATE TRIGGER blob_is_immutable BEFORE UPDATE OF hash, body ON blob
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: a blob never changes');
CREATE TRIGGER token_stays BEFORE DELETE ON token
  FOR EACH ROW EXECUTE FUNCTION refuse('a token is revoked, never removed: without any, a server would be open to all');
CREATE TRIGGER tombstone_stays BEFORE DELETE ON tombstone
  FOR EACH ROW EXECUTE FUNCTION refuse('immutable: that something was deleted is never forgotten');
CREATE TRIGGER step_end_is_immutable BEFORE UPDATE ON step
  FOR EACH ROW WHEN (OLD.outcome IS NOT NULL) EXECUTE FUNCTION refuse('immutable: a step ends once');

CREATE FUNCTION branch_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.id, NEW.session_id, NEW.parent_id, NEW.fork_seq, NEW.base_state)
      IS DISTINCT FROM (OLD.id, OLD.session_id, OLD.parent_id, OLD.fork_seq, OLD.base_state) THEN
    RAISE EXCEPTION 'immutable: where a branch began never changes' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.head_seq < OLD.head_seq OR NEW.last_turn_seq < OLD.last_turn_seq THEN
    RAISE EXCEPTION 'head: a branch never goes back; fork it instead' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF (NEW.head_state, NEW.head_seq) IS DISTINCT FROM (OLD.head_state, OLD.head_seq) AND NOT EXISTS (SELECT 1 FROM state
      WHERE id = NEW.head_state AND state_seq = NEW.head_seq AND session_id = NEW.session_id) THEN
    RAISE EXCEPTION 'head: a branch points only to a state of its session, with that state''s number'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER branch_changes BEFORE UPDATE ON branch FOR EACH ROW EXECUTE FUNCTION branch_changes();

CREATE FUNCTION state_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
      OR NEW.summary IS NOT NULL OR NEW.covers_turn_seq > OLD.covers_turn_seq
      OR (NEW.id, NEW.session_id, NEW.branch_id, NEW.state_seq, NEW.parent_id, NEW.turn_seq, NEW.reason, NEW.pins,
        NEW.created_at, NEW.schema_version) IS DISTINCT FROM (OLD.id, OLD.session_id, OLD.branch_id, OLD.state_seq,
        OLD.parent_id, OLD.turn_seq, OLD.reason, OLD.pins, OLD.created_at, OLD.schema_version) THEN
    RAISE EXCEPTION 'immutable: a state never changes; commit a new one' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER state_changes BEFORE UPDATE ON state FOR EACH ROW EXECUTE FUNCTION state_changes();

CREATE FUNCTION is_blank(words text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT btrim(words, E'\u0009\u000a\u000b\u000c\u000d\u001c\u001d\u001e\u001f\u0020\u0085\u00a0\u00ad\u034f\u061c\u115f'
    || E'\u1160\u1680\u17b4\u17b5\u180e\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a'
    || E'\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u202f\u205f\u2060\u2061'
    || E'\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206b\u206c\u206d\u206e\u206f\u2800\u3000\u3164'
    || E'\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f'
    || E'\ufeff\uffa0') = '' $$;

CREATE FUNCTION turn_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.phase NOT IN ('Accepted', 'Done') THEN
    RAISE EXCEPTION 'phase: a turn begins as Accepted, or as Done when it was finished elsewhere'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.phase = 'Done' THEN
    IF EXISTS (SELECT 1 FROM session WHERE id = NEW.session_id AND kind = 'chat') AND (NEW.answer IS NULL
        OR EXISTS (SELECT 1 FROM message AS m WHERE m.key IN (NEW.user_message, NEW.answer) AND is_blank(m.text))) THEN
      RAISE EXCEPTION 'blank: a chat turn has a query and a response, neither of them blank'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING;
  END IF;
  UPDATE expiry SET due = NEW.created_at + ttl WHERE session_id = NEW.session_id AND due > NEW.created_at + ttl;
  RETURN NEW;
END $$;
CREATE TRIGGER turn_begins BEFORE INSERT ON turn FOR EACH ROW EXECUTE FUNCTION turn_begins();

CREATE FUNCTION turn_changes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE is_open boolean := OLD.phase IN ('Accepted', 'ContextPrepared', 'Responding');
BEGIN
  IF (NEW.id, NEW.session_id, NEW.branch_id, NEW.turn_seq, NEW.user_message, NEW.state_before, NEW.created_at,
      NEW.retry_of) IS DISTINCT FROM (OLD.id, OLD.session_id, OLD.branch_id, OLD.turn_seq, OLD.user_message,
      OLD.state_before, OLD.created_at, OLD.retry_of) THEN
    RAISE EXCEPTION 'immutable: where a turn stands and what it asked never change'
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.state_after IS DISTINCT FROM OLD.state_after AND OLD.state_after IS NOT NULL THEN
    RAISE EXCEPTION 'immutable: a turn is committed once' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.answer IS DISTINCT FROM OLD.answer AND (OLD.answer IS NOT NULL OR (NOT is_open
      AND (OLD.phase <> 'Done' OR OLD.outcome IS NOT NULL OR NEW.outcome IS DISTINCT FROM 'completed'
        OR EXISTS (SELECT 1 FROM turn WHERE branch_id = OLD.branch_id AND turn_seq > OLD.turn_seq)
        OR EXISTS (SELECT 1 FROM branch WHERE parent_id = OLD.branch_id AND fork_seq >= OLD.turn_seq)))) THEN
    RAISE EXCEPTION 'immutable: an answer is set once' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NOT is_open AND (NEW.outcome, NEW.error, NEW.provider, NEW.model, NEW.metadata)
      IS DISTINCT FROM (OLD.outcome, OLD.error, OLD.provider, OLD.model, OLD.metadata)
    AND NOT (OLD.outcome IS NULL AND NEW.outcome IS NOT DISTINCT FROM 'completed' AND OLD.answer IS NULL
      AND NEW.answer IS NOT NULL AND (NEW.error, NEW.provider, NEW.model, NEW.metadata)
        IS NOT DISTINCT FROM (OLD.error, OLD.provider, OLD.model, OLD.metadata))
    AND NOT ((NEW.outcome, NEW.error, NEW.provider, NEW.model)
        IS NOT DISTINCT FROM (OLD.outcome, OLD.error, OLD.provider, OLD.model)
      AND EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)) THEN
    RAISE EXCEPTION 'immutable: how a turn ended never changes' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.phase <> OLD.phase AND NOT (CASE OLD.phase
      WHEN 'Accepted' THEN NEW.phase IN ('ContextPrepared', 'Failed')
      WHEN 'ContextPrepared' THEN NEW.phase IN ('Responding', 'ResponseFinalized', 'Failed')
      WHEN 'Responding' THEN NEW.phase IN ('ResponseFinalized', 'Failed')
      WHEN 'ResponseFinalized' THEN NEW.phase = 'StateCommitted'
      WHEN 'StateCommitted' THEN NEW.phase = 'Indexed'
      WHEN 'Indexed' THEN NEW.phase = 'Done'
      ELSE false END) THEN
    RAISE EXCEPTION 'phase: a turn cannot go from its phase to that one' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF (NEW.phase = 'Failed' AND OLD.phase <> 'Failed')
      OR (NEW.phase = 'Indexed' AND OLD.phase = 'StateCommitted' AND NEW.degraded <> 0)
      OR (NEW.phase = 'Done' AND NEW.answer IS DISTINCT FROM OLD.answer) THEN
    INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER turn_changes BEFORE UPDATE ON turn FOR EACH ROW EXECUTE FUNCTION turn_changes();

CREATE FUNCTION turn_is_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM uncut WHERE question = OLD.user_message;
  DELETE FROM memory_source WHERE turn_id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER turn_is_gone AFTER DELETE ON turn FOR EACH ROW EXECUTE FUNCTION turn_is_gone();

CREATE FUNCTION message_is_gone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE own bigint; places bigint;
BEGIN
  SELECT count(*) FILTER (WHERE row = 4 * OLD.key), count(*) INTO own, places
  FROM keyword WHERE row IN (4 * OLD.key, 4 * OLD.key + 2);
  INSERT INTO word_scope AS s VALUES (U&'\E100' || encode(OLD.session_id, 'hex'), slot(), -own, -places, 4611686018427387904, 0)
  ON CONFLICT (token, slot) DO UPDATE SET messages = s.messages + EXCLUDED.messages, places = s.places + EXCLUDED.places;
  INSERT INTO word_count AS c (slot, messages, indexed, places) VALUES (slot(), -1, -own, -places)
  ON CONFLICT (slot) DO UPDATE SET messages = c.messages - 1, indexed = c.indexed + EXCLUDED.indexed,
    places = c.places + EXCLUDED.places;
  UPDATE word_state SET epoch = epoch + 1 WHERE one = 1;
  DELETE FROM keyword WHERE row BETWEEN 4 * OLD.key AND 4 * OLD.key + 3;
  RETURN NULL;
END $$;
CREATE TRIGGER message_is_gone AFTER DELETE ON message FOR EACH ROW EXECUTE FUNCTION message_is_gone();

CREATE FUNCTION recut_is_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE word_state SET epoch = epoch + 1 WHERE one = 1;
  RETURN NULL;
END $$;
CREATE TRIGGER recut_is_over AFTER DELETE ON recut FOR EACH ROW EXECUTE FUNCTION recut_is_over();

CREATE FUNCTION session_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM tombstone AS d WHERE d.id = NEW.id AND d.kind = 'session' AND d.user_id IS NOT NULL
      AND (d.org_id, d.user_id) IS DISTINCT FROM (NEW.org_id, NEW.user_id)) THEN
    RAISE EXCEPTION 'user_id: a session of that id was another user''s' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.ttl_hours IS NOT NULL THEN
    INSERT INTO expiry VALUES (NEW.id, trunc(least(NEW.ttl_hours, 8760000.0) * 3600000)::bigint,
      NEW.created_at + trunc(least(NEW.ttl_hours, 8760000.0) * 3600000)::bigint);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER session_begins BEFORE INSERT ON session FOR EACH ROW EXECUTE FUNCTION session_begins();

CREATE FUNCTION memory_is_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.superseded_by IS NOT NULL THEN
    UPDATE memory SET superseded_by = OLD.superseded_by, superseded_at = OLD.superseded_at WHERE superseded_by = OLD.id;
  END IF;
  DELETE FROM memory_word WHERE memory_key = OLD.key;
  DELETE FROM memory_source WHERE memory_key = OLD.key;
  RETURN NULL;
END $$;
CREATE TRIGGER memory_is_gone AFTER DELETE ON memory FOR EACH ROW EXECUTE FUNCTION memory_is_gone();

CREATE FUNCTION source_is_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM memory_source WHERE memory_key = OLD.memory_key) THEN
    UPDATE memory SET superseded_by = then_true.id, superseded_at = then_true.valid_from
    FROM (SELECT prior.key, w.id, w.valid_from FROM memory AS gone JOIN memory AS prior ON prior.superseded_by = gone.id
        LEFT JOIN memory AS w ON w.key = (SELECT r.key FROM memory AS r
          WHERE r.owner_key = prior.owner_key AND r.about = prior.about AND r.about <> '' AND r.thread = prior.thread
            AND r.key NOT IN (prior.key, gone.key) AND (r.superseded_by IS NULL OR (r.superseded_by = gone.id
              AND (r.valid_from, r.key) > (prior.valid_from, prior.key)))
          ORDER BY r.superseded_by IS NULL DESC, r.valid_from DESC, r.key DESC LIMIT 1)
      WHERE gone.key = OLD.memory_key AND gone.superseded_by IS NULL AND gone.origin <> 'person') AS then_true
    WHERE memory.key = then_true.key;
    DELETE FROM memory WHERE key = OLD.memory_key AND origin <> 'person';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER source_is_gone AFTER DELETE ON memory_source FOR EACH ROW EXECUTE FUNCTION source_is_gone();
