-- How long the stages of a turn took, in milliseconds, as a JSON object; NULL for turns of older releases.
ALTER TABLE turn ADD COLUMN latency_ms TEXT;
