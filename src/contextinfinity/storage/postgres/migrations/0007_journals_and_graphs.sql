-- Journals of streams in progress, as far as they are written, so that every host can resume and end them.

CREATE TABLE journal_block (
  step_id bytea NOT NULL REFERENCES step (id) ON DELETE CASCADE,
  first bigint NOT NULL,                -- number of its first entry
  last bigint NOT NULL CHECK (last >= first),
  session_id bytea NOT NULL,
  entries bytea NOT NULL,               -- a JSON array, compressed
  written_at timestamptz NOT NULL DEFAULT now(),
  tenant uuid DEFAULT current_tenant(),
  PRIMARY KEY (step_id, first)
);
CREATE INDEX journal_block_by_age ON journal_block (written_at);

ALTER TABLE journal_block ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON journal_block USING (tenant = (SELECT current_tenant()));
CREATE POLICY maintenance ON journal_block TO CURRENT_USER USING (true) WITH CHECK (true);

-- The numbers of a stored vector without its scale, as pgvector takes them.
CREATE FUNCTION vector_numbers(body bytea) RETURNS real[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT array_agg(((get_byte(body, place) + 128) % 256 - 128)::real ORDER BY place)
  FROM generate_series(4, length(body) - 1) AS place $$;
