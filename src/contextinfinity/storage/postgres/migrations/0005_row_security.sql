-- Row-level security. Each row with user data has a tenant: a keyed hash of its owner, which cannot be guessed. A
-- transaction of the serving role names its tenant in the setting contextinfinity.tenant and reaches the rows of that
-- tenant only; setting another one needs that owner's hash. The owner of the tables, which runs migrations, jobs,
-- recovery and cleanup, reaches all rows.

CREATE TABLE tenant_secret (secret bytea NOT NULL);
INSERT INTO tenant_secret SELECT sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));

CREATE FUNCTION tenant_of(org text, usr text) RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT encode(substr(sha256(secret || sha256(secret || convert_to(length(org) || ' ' || org || ' ' || usr, 'UTF8'))),
    1, 16), 'hex')::uuid FROM tenant_secret $$;
REVOKE EXECUTE ON FUNCTION tenant_of FROM PUBLIC;

CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT nullif(current_setting('contextinfinity.tenant', true), '')::uuid $$;

-- Lists of ids and keys. Under row security an index is used for "id = value" only if the value needs no conversion in
-- the query: these functions convert, and are strict so that they are not inlined into it.
CREATE FUNCTION bytes_each(list text) RETURNS TABLE (key bigint, value bytea)
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 16 AS $$
  SELECT place - 1, decode(item, 'hex') FROM json_array_elements_text(list::json) WITH ORDINALITY AS items (item, place) $$;
CREATE FUNCTION ints_each(list text) RETURNS TABLE (key bigint, value bigint)
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 16 AS $$
  SELECT place - 1, item::bigint FROM json_array_elements_text(list::json) WITH ORDINALITY AS items (item, place) $$;

CREATE FUNCTION tenant_from_owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE own uuid := tenant_of(NEW.org_id, NEW.user_id);
BEGIN
  IF NEW.tenant <> own THEN
    RAISE EXCEPTION 'tenant: a row of % is for another owner than its transaction', TG_TABLE_NAME
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  NEW.tenant := own;
  RETURN NEW;
END $$;

CREATE FUNCTION tenant_from_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT s.tenant INTO NEW.tenant FROM session AS s WHERE s.id = NEW.session_id;
  RETURN NEW;
END $$;

CREATE FUNCTION tenant_from_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT m.tenant INTO NEW.tenant FROM message AS m WHERE m.key = NEW.row / 4;
  RETURN NEW;
END $$;

CREATE FUNCTION tenant_from_question() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT m.tenant INTO NEW.tenant FROM message AS m WHERE m.key = NEW.question;
  RETURN NEW;
END $$;

CREATE FUNCTION tenant_from_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT t.tenant INTO NEW.tenant FROM text AS t WHERE t.key = NEW.key;
  RETURN NEW;
END $$;

CREATE FUNCTION tenant_from_memory_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT o.tenant INTO NEW.tenant FROM memory_owner AS o WHERE o.key = NEW.owner_key;
  RETURN NEW;
END $$;

DO $$
DECLARE
  of_sessions text[] := ARRAY['branch', 'state', 'message', 'turn', 'step', 'plan', 'response', 'chunk', 'retrieval',
    'origin', 'trail', 'branch_end', 'blob_use', 'job', 'fold_candidate', 'request', 'expiry', 'deletion', 'tombstone',
    'memory_source', 'vector'];
  of_memories text[] := ARRAY['memory', 'memory_word', 'forgotten'];
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['session', 'memory_owner'] || of_sessions || of_memories
      || ARRAY['keyword', 'word_scope', 'uncut', 'recut', 'loose_text', 'text', 'blob'] LOOP
    EXECUTE format('ALTER TABLE %I ADD COLUMN tenant uuid, DISABLE TRIGGER USER', name);
  END LOOP;
  UPDATE session SET tenant = tenant_of(org_id, user_id);
  UPDATE memory_owner SET tenant = tenant_of(org_id, user_id);
  FOREACH name IN ARRAY of_sessions LOOP
    EXECUTE format('UPDATE %I AS x SET tenant = s.tenant FROM session AS s WHERE s.id = x.session_id', name);
    EXECUTE format('CREATE TRIGGER a_tenant BEFORE INSERT ON %I FOR EACH ROW WHEN (NEW.tenant IS NULL) '
      'EXECUTE FUNCTION tenant_from_session()', name);
  END LOOP;
  FOREACH name IN ARRAY of_memories LOOP
    EXECUTE format('UPDATE %I AS x SET tenant = o.tenant FROM memory_owner AS o WHERE o.key = x.owner_key', name);
    EXECUTE format('CREATE TRIGGER a_tenant BEFORE INSERT ON %I FOR EACH ROW WHEN (NEW.tenant IS NULL) '
      'EXECUTE FUNCTION tenant_from_memory_owner()', name);
  END LOOP;
  UPDATE tombstone SET tenant = tenant_of(org_id, user_id) WHERE tenant IS NULL AND user_id IS NOT NULL;
  UPDATE keyword AS x SET tenant = m.tenant FROM message AS m WHERE m.key = x.row / 4;
  UPDATE uncut AS x SET tenant = m.tenant FROM message AS m WHERE m.key = x.question;
  -- An owner's token stands in front of the words of each of their rows, after that of the session.
  UPDATE word_scope AS x SET tenant = coalesce(
    (SELECT s.tenant FROM session AS s WHERE x.token = U&'\E100' || encode(s.id, 'hex')),
    (SELECT k.tenant FROM keyword AS k WHERE k.words @> ARRAY[x.token] LIMIT 1));
  UPDATE text SET tenant = '00000000-0000-0000-0000-000000000000';
  UPDATE blob SET tenant = '00000000-0000-0000-0000-000000000000';
END $$;

CREATE TRIGGER a_tenant BEFORE INSERT OR UPDATE OF org_id, user_id, tenant ON session
  FOR EACH ROW EXECUTE FUNCTION tenant_from_owner();
CREATE TRIGGER a_tenant BEFORE INSERT OR UPDATE OF org_id, user_id, tenant ON memory_owner
  FOR EACH ROW EXECUTE FUNCTION tenant_from_owner();
CREATE TRIGGER a_tenant BEFORE INSERT ON keyword
  FOR EACH ROW WHEN (NEW.tenant IS NULL) EXECUTE FUNCTION tenant_from_message();
CREATE TRIGGER a_tenant BEFORE INSERT ON uncut
  FOR EACH ROW WHEN (NEW.tenant IS NULL) EXECUTE FUNCTION tenant_from_question();
CREATE TRIGGER a_tenant BEFORE INSERT ON loose_text
  FOR EACH ROW WHEN (NEW.tenant IS NULL) EXECUTE FUNCTION tenant_from_text();

-- Shared content is shared within a tenant only.
ALTER TABLE blob_use DROP CONSTRAINT blob_use_hash_fkey;
ALTER TABLE text DROP CONSTRAINT text_hash_key, ADD UNIQUE (tenant, hash), ALTER COLUMN tenant SET NOT NULL;
ALTER TABLE blob DROP CONSTRAINT blob_pkey, ADD PRIMARY KEY (tenant, hash);

INSERT INTO text (tenant, hash, body, kept_at) SELECT DISTINCT ON (used.tenant, t.key) used.tenant, t.hash, t.body, t.kept_at
FROM (SELECT tenant, system AS key FROM session UNION SELECT tenant, summary FROM state UNION SELECT tenant, pins FROM state
    UNION SELECT p.tenant, t.key FROM plan AS p CROSS JOIN plan_texts(p.body) AS u (hash) JOIN text AS t ON t.hash = unhex(u.hash)
  ) AS used JOIN text AS t ON t.key = used.key WHERE used.tenant IS NOT NULL;
UPDATE session AS x SET system = n.key FROM text AS o, text AS n
  WHERE o.key = x.system AND n.hash = o.hash AND n.tenant = x.tenant;
UPDATE state AS x SET summary = n.key FROM text AS o, text AS n
  WHERE o.key = x.summary AND n.hash = o.hash AND n.tenant = x.tenant;
UPDATE state AS x SET pins = n.key FROM text AS o, text AS n
  WHERE o.key = x.pins AND n.hash = o.hash AND n.tenant = x.tenant;
INSERT INTO blob (tenant, hash, media_type, kept_at, body)
SELECT DISTINCT ON (u.tenant, b.hash) u.tenant, b.hash, b.media_type, b.kept_at, b.body
FROM blob_use AS u JOIN blob AS b ON b.hash = u.hash WHERE u.tenant IS NOT NULL;
ALTER TABLE blob_use ADD FOREIGN KEY (tenant, hash) REFERENCES blob (tenant, hash);
CREATE INDEX text_by_hash ON text (hash);
CREATE INDEX blob_by_hash ON blob (hash);

DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
      WHERE attname = 'tenant' AND relkind = 'r' AND relnamespace = current_schema()::regnamespace LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN tenant SET DEFAULT %s, ENABLE TRIGGER USER, ENABLE ROW LEVEL SECURITY, '
      'FORCE ROW LEVEL SECURITY', name, CASE WHEN name IN ('text', 'blob')
      THEN 'coalesce(current_tenant(), ''00000000-0000-0000-0000-000000000000'')' ELSE 'current_tenant()' END);
    EXECUTE format('CREATE POLICY own_rows ON %s USING (tenant = (SELECT current_tenant()))', name);
    EXECUTE format('CREATE POLICY maintenance ON %s TO CURRENT_USER USING (true) WITH CHECK (true)', name);
  END LOOP;
END $$;

-- What the serving role may not read as a table: which words all users say, and the search in the index of words, whose
-- operator an index serves only where no policy applies.
CREATE FUNCTION word_places(list text) RETURNS TABLE (word text, places bigint)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  RETURN QUERY SELECT s.word, s.places FROM word_sample AS s WHERE s.word IN (SELECT value FROM json_each(list));
END $$;
CREATE FUNCTION count_word(said text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
  INSERT INTO word_sample AS s (word, places) VALUES (said, 1) ON CONFLICT (word) DO UPDATE SET places = s.places + 1 $$;
CREATE FUNCTION uncount_word(said text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
  UPDATE word_sample SET places = places - 1 WHERE word = said;
  DELETE FROM word_sample WHERE word = said AND places <= 0 $$;
CREATE FUNCTION find_own_rows(tokens text, lowest bigint, highest bigint, most bigint) RETURNS text
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  RETURN (SELECT string_agg(found.row::text, ',') FROM (SELECT k.row FROM keyword AS k
    WHERE k.words @> ARRAY(SELECT value FROM json_each(tokens)) AND k.row BETWEEN lowest AND highest
      AND k.tenant = current_tenant() ORDER BY k.row DESC LIMIT most) AS found);
END $$;

-- The guards write what belongs to a session under its tenant, and know of deleted sessions of other tenants.
CREATE OR REPLACE FUNCTION session_begins() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE ttl bigint := trunc(least(NEW.ttl_hours, 8760000.0) * 3600000)::bigint; own bigint;
BEGIN
  IF EXISTS (SELECT 1 FROM tombstone AS d WHERE d.id = NEW.id AND d.kind = 'session' AND d.user_id IS NOT NULL
      AND (d.org_id, d.user_id) IS DISTINCT FROM (NEW.org_id, NEW.user_id))
    OR EXISTS (SELECT 1 FROM session AS s WHERE s.id = NEW.id AND s.tenant <> NEW.tenant) THEN
    RAISE EXCEPTION 'user_id: a session of that id is or was another user''s' USING ERRCODE = 'insufficient_privilege';
  END IF;
  IF ttl IS NOT NULL THEN
    INSERT INTO expiry (session_id, ttl, due, tenant) VALUES (NEW.id, ttl, NEW.created_at + ttl, NEW.tenant);
  END IF;
  IF NEW.system IS NOT NULL AND current_tenant() IS NULL THEN  -- maintenance kept the text before its owner was known
    INSERT INTO text AS t (tenant, hash, body, kept_at) SELECT NEW.tenant, o.hash, o.body, o.kept_at FROM text AS o
      WHERE o.key = NEW.system
    ON CONFLICT (tenant, hash) DO UPDATE SET kept_at = greatest(t.kept_at, excluded.kept_at) RETURNING t.key INTO own;
    NEW.system := own;
  END IF;
  RETURN NEW;
END $$;
