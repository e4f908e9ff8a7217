-- Where branches left off, one row each: however many conversations begin alike, one that can be gone on with is found
-- at once. Trails begin with their owner from now on; older ones lead nowhere, and go.

DELETE FROM trail;
DROP INDEX trail_by_answer;
DROP INDEX trail_by_exchange;
CREATE INDEX trail_by_answer ON trail (answered, session_id) WHERE answered IS NOT NULL;
CREATE INDEX trail_by_exchange ON trail (alone, session_id) WHERE alone IS NOT NULL;

CREATE TABLE branch_end (               -- the last turn that a branch sees and that did not fail, if it was answered
  branch_id BLOB PRIMARY KEY CHECK (length(branch_id) = 16),
  session_id BLOB NOT NULL,
  turn_id BLOB NOT NULL,
  turn_seq INTEGER NOT NULL,
  is_own INTEGER NOT NULL,              -- 0: the branch was begun after it, and says nothing of its own yet
  answered INTEGER,                     -- its trails
  alone INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX branch_end_by_answer ON branch_end (answered, is_own, branch_id, session_id) WHERE answered IS NOT NULL;
CREATE INDEX branch_end_by_exchange ON branch_end (alone, is_own, branch_id, session_id) WHERE alone IS NOT NULL;
