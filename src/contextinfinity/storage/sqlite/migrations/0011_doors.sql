-- What a server needs: tokens of those who may use it, and the keys by which a repeated request is known.

CREATE TABLE token (                    -- what it says is nowhere, only its hash
  sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32),
  id BLOB NOT NULL CHECK (length(id) = 16),
  org_id TEXT NOT NULL, user_id TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
  created_at INTEGER NOT NULL,
  revoked_at INTEGER                    -- NULL: it counts
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX token_by_id ON token (id);

CREATE TRIGGER token_stays BEFORE DELETE ON token
BEGIN SELECT raise(ABORT, 'a token is revoked, never removed: without any, a server would be open to all'); END;

CREATE TABLE request (                  -- a request that may come again, and what it made: a session, or a turn in it
  key BLOB PRIMARY KEY CHECK (length(key) = 32),
  asked BLOB NOT NULL CHECK (length(asked) = 32),
  session_id BLOB NOT NULL, turn_id BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX request_by_session ON request (session_id);

CREATE TRIGGER request_is_immutable BEFORE UPDATE ON request
BEGIN SELECT raise(ABORT, 'immutable: a key names one request for ever'); END;
