-- Resent conversations: which messages followed an opening, and which requests lost their connection unanswered.

ALTER TABLE trail ADD COLUMN before INTEGER;     -- the prefix hash in front of the question: counts what followed it
ALTER TABLE trail ADD COLUMN broken_at INTEGER;  -- when the request's connection broke unanswered, in ms; 0: it is open
CREATE INDEX trail_by_opening ON trail (before, asked) WHERE before IS NOT NULL;
CREATE INDEX trail_by_broken_request ON trail (body) WHERE broken_at IS NOT NULL;

-- Until now a prefix hash covered what a client had sent, which could be less than what is stored in front of the turn.
-- From now on it covers all of it. Older conversations are found by comparing their end.
UPDATE trail SET asked = NULL, answered = NULL, body = NULL
WHERE asked IS NOT NULL OR answered IS NOT NULL OR body IS NOT NULL;
UPDATE branch_end SET answered = NULL WHERE answered IS NOT NULL;
