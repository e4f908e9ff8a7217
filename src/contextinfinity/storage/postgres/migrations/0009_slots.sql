-- Counters have a row a slot. Each connection has a slot of its own: two that shared one made each other's transactions
-- run again. Behind a pooler, where a connection keeps nothing, the slot is that of the server's process.

CREATE OR REPLACE FUNCTION slot() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT coalesce(nullif(current_setting('contextinfinity.slot', true), '')::bigint, 4096 + pg_backend_pid() % 1024) $$;

ALTER TABLE spending ADD COLUMN slot bigint NOT NULL DEFAULT 0;
ALTER TABLE spending DROP CONSTRAINT spending_pkey, ADD PRIMARY KEY (org_id, user_id, day, slot);
