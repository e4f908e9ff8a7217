-- Tokens may expire.

ALTER TABLE token ADD COLUMN expires_at INTEGER;  -- NULL: never
