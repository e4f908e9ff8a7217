-- Where conversations left off, by what was said in them: for clients that name no thread and send everything again.

CREATE TABLE trail (                    -- numbers that roll over what was said: see domain/trail.py
  turn_id BLOB PRIMARY KEY CHECK (length(turn_id) = 16),
  session_id BLOB NOT NULL,
  asked INTEGER,                        -- up to the question; NULL: what stood before it has no trail
  answered INTEGER,                     -- up to the answer
  alone INTEGER,                        -- of question and answer, whatever stood before
  body INTEGER                          -- of the request that made it
) STRICT, WITHOUT ROWID;
CREATE INDEX trail_by_answer ON trail (answered) WHERE answered IS NOT NULL;
CREATE INDEX trail_by_exchange ON trail (alone) WHERE alone IS NOT NULL;
CREATE INDEX trail_by_request ON trail (asked, body) WHERE body IS NOT NULL;
