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

CREATE TRIGGER deleted_message_takes_its_words AFTER DELETE ON message
BEGIN
  UPDATE word_scope SET messages = messages - 1, places = places - (
    SELECT count(*) FROM keyword_docsize WHERE id IN (4 * OLD.key, 4 * OLD.key + 2))
  WHERE token = char(0xE100) || lower(hex(OLD.session_id));
  UPDATE word_state SET epoch = epoch + 1, messages = messages - 1,
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

CREATE TRIGGER response_is_immutable BEFORE UPDATE ON response
BEGIN SELECT raise(ABORT, 'immutable: a raw reply may be pruned, never changed'); END;

CREATE TRIGGER response_is_kept_once BEFORE INSERT ON response
WHEN EXISTS (SELECT 1 FROM response WHERE step_id = NEW.step_id)
BEGIN SELECT raise(ABORT, 'immutable: that raw reply is there already'); END;

CREATE TRIGGER session_is_made_once BEFORE INSERT ON session
WHEN EXISTS (SELECT 1 FROM session WHERE id = NEW.id)
BEGIN SELECT raise(ABORT, 'immutable: that session is there already'); END;

CREATE TRIGGER session_stays BEFORE DELETE ON session
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.id)
BEGIN SELECT raise(ABORT, 'immutable: a session is deleted only with a deletion'); END;

CREATE TRIGGER state_is_committed_once BEFORE INSERT ON state
WHEN EXISTS (SELECT 1 FROM state WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM state WHERE branch_id = NEW.branch_id AND state_seq = NEW.state_seq)
BEGIN SELECT raise(ABORT, 'immutable: that state, or one of its number, is there already'); END;

CREATE TRIGGER state_is_immutable BEFORE UPDATE ON state
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

CREATE TRIGGER deleted_turn_is_not_to_be_cut AFTER DELETE ON turn
BEGIN DELETE FROM uncut WHERE question = OLD.user_message; END;

CREATE TRIGGER ended_turn_is_to_be_cut AFTER UPDATE OF phase, answer ON turn
WHEN (NEW.phase = 'Failed' AND OLD.phase <> 'Failed')
  OR (NEW.phase = 'Indexed' AND OLD.phase = 'StateCommitted' AND NEW.degraded)
  OR (NEW.phase = 'Done' AND NEW.answer IS NOT OLD.answer)
BEGIN INSERT INTO uncut VALUES (NEW.user_message) ON CONFLICT DO NOTHING; END;

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
