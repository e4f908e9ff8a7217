-- Functions that SQLite has under these names, so that most statements are written once for both databases.

CREATE FUNCTION unhex(digits text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT decode(digits, 'hex') $$;

CREATE FUNCTION json_each(list text) RETURNS TABLE (key bigint, value text) LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 16 AS $$
  SELECT place - 1, item FROM json_array_elements_text(list::json) WITH ORDINALITY AS items (item, place) $$;

CREATE FUNCTION iif(test boolean, a text, b text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN test THEN a ELSE b END $$;
CREATE FUNCTION iif(test boolean, a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN test THEN a ELSE b END $$;

CREATE FUNCTION max(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT greatest(a, b) $$;
CREATE FUNCTION min(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT least(a, b) $$;

CREATE FUNCTION instr(whole text, part text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT strpos(whole, part) $$;

CREATE FUNCTION unixepoch(modifier text) RETURNS double precision LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT extract(epoch FROM now())::double precision $$;

CREATE FUNCTION uuid_text(id bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN length(id) = 16 THEN encode(id, 'hex')::uuid::text ELSE encode(id, 'hex') END $$;

CREATE FUNCTION iso_time(millis bigint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT to_char(to_timestamp(millis / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation'; END $$;

CREATE FUNCTION plan_texts(body text) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  -- The hashes, in hex, of the texts that a plan refers to.
  SELECT hash FROM (SELECT body::json -> 'is' AS plan) AS read, LATERAL (
    SELECT plan ->> 'front' UNION ALL SELECT plan ->> 'form' UNION ALL SELECT plan ->> 'redactions'
    UNION ALL SELECT plan #>> ARRAY['workspace', place::text] FROM generate_series(0, 4) AS place) AS used (hash)
  WHERE hash IS NOT NULL $$;
