-- What the models of a user's turns cost in US dollars, by day (UTC, counted from 1970). It outlives the conversations.
CREATE TABLE spending (
  org_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  day INTEGER NOT NULL,
  dollars REAL NOT NULL,
  PRIMARY KEY (org_id, user_id, day)
) STRICT, WITHOUT ROWID;
