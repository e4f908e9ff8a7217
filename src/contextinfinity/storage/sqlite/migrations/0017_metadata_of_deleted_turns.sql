-- While turns of its session are deleted, what a turn's metadata holds of them may be removed; nothing else of its end changes.
DROP TRIGGER turn_end_is_immutable;
CREATE TRIGGER turn_end_is_immutable BEFORE UPDATE OF outcome, error, provider, model, metadata ON turn
WHEN OLD.phase NOT IN ('Accepted', 'ContextPrepared') AND OLD.phase <> 'Responding'
  AND (NEW.outcome, NEW.error, NEW.provider, NEW.model, NEW.metadata)
    IS NOT (OLD.outcome, OLD.error, OLD.provider, OLD.model, OLD.metadata)
  AND NOT (OLD.outcome IS NULL AND NEW.outcome IS 'completed' AND OLD.answer IS NULL AND NEW.answer IS NOT NULL
    AND (NEW.error, NEW.provider, NEW.model, NEW.metadata) IS (OLD.error, OLD.provider, OLD.model, OLD.metadata))
  AND NOT ((NEW.outcome, NEW.error, NEW.provider, NEW.model) IS (OLD.outcome, OLD.error, OLD.provider, OLD.model)
    AND EXISTS (SELECT 1 FROM deletion WHERE session_id = OLD.session_id))
BEGIN SELECT raise(ABORT, 'immutable: how a turn ended never changes'); END;
