-- Made from the migrations: read this, but change those.

CREATE TRIGGER blob_in_use_stays BEFORE DELETE ON blob
WHEN EXISTS (SELECT 1 FROM blob_use WHERE hash = OLD.hash)
BEGIN SELECT raise(ABORT, 'immutable: a blob that a message shows stays'); END;

CREATE TRIGGER blob_is_immutable BEFORE UPDATE OF hash, body ON blob
BEGIN SELECT raise(ABORT, 'immutable: a blob never changes'); END;

CREATE TRIGGER head_is_a_state_of_the_session BEFORE UPDATE OF head_state, head_seq ON branch
WHEN NOT EXISTS (SELECT 1 FROM state
  WHERE id = NEW.head_state AND state_seq = NEW.head_seq AND session_id = NEW.session_id)
BEGIN SELECT raise(ABORT, 'head: a branch points only to a state of its session, with that state''s number'); END;

CREATE TRIGGER chunk_is_immutable BEFORE UPDATE ON chunk
BEGIN SELECT raise(ABORT, 'immutable: a chunk never changes; index the turn again'); END;

CREATE TRIGGER message_is_immutable BEFORE UPDATE ON message
BEGIN SELECT raise(ABORT, 'immutable: a message never changes; record a new one'); END;

CREATE TRIGGER message_stays BEFORE DELETE ON message
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a message is deleted only with a deletion of its session'); END;

CREATE TRIGGER plan_is_immutable BEFORE UPDATE ON plan
BEGIN SELECT raise(ABORT, 'immutable: a plan never changes'); END;

CREATE TRIGGER state_is_immutable BEFORE UPDATE ON state
BEGIN SELECT raise(ABORT, 'immutable: a state never changes; commit a new one'); END;

CREATE TRIGGER state_stays BEFORE DELETE ON state
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a state is deleted only with a deletion of its session'); END;

CREATE TRIGGER step_end_is_immutable BEFORE UPDATE ON step
WHEN OLD.outcome IS NOT NULL
BEGIN SELECT raise(ABORT, 'immutable: a step ends once'); END;

CREATE TRIGGER step_stays BEFORE DELETE ON step
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a step is deleted only with a deletion of its session'); END;

CREATE TRIGGER text_is_immutable BEFORE UPDATE OF hash, body ON text
BEGIN SELECT raise(ABORT, 'immutable: a shared text never changes'); END;

CREATE TRIGGER turn_answer_is_set_once BEFORE UPDATE OF answer ON turn
WHEN OLD.answer IS NOT NULL AND NEW.answer IS NOT OLD.answer
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

CREATE TRIGGER turn_stays BEFORE DELETE ON turn
WHEN NOT EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id)
BEGIN SELECT raise(ABORT, 'immutable: a turn is deleted only with a deletion of its session'); END;
