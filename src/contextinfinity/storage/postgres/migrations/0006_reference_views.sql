-- The reference schema: the same rows under plural names, ids as text, times in ISO 8601, text in place. The views are
-- read with the rights of the role that reads them: row-level security applies.

CREATE FUNCTION rendered_text(plain text, blocks text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(plain, (SELECT string_agg(b.value ->> 'text', '' ORDER BY b.place)
    FROM json_array_elements(blocks::json #> '{is,blocks}') WITH ORDINALITY AS b (value, place)
    WHERE b.value ->> 'type' = 'text'), '') $$;
CREATE FUNCTION blocks_json(plain text, blocks text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(blocks::json #> '{is,blocks}', json_build_array(json_build_object('type', 'text', 'text', plain))) $$;

CREATE VIEW messages WITH (security_invoker = true) AS
SELECT m.key, uuid_text(m.session_id) AS session_id, m.role, rendered_text(m.text, m.blocks) AS rendered_text,
  blocks_json(m.text, m.blocks)::text AS blocks_json, encode(m.content_hash, 'hex') AS content_hash
FROM message AS m;

CREATE VIEW sessions WITH (security_invoker = true) AS
SELECT uuid_text(s.id) AS id, iso_time(s.created_at) AS created_at, s.title, uuid_text(s.active_branch) AS active_branch,
  s.org_id, s.user_id, s.external_id, s.kind, s.ttl_hours, t.body AS system, iso_time(s.updated_at) AS updated_at
FROM session AS s LEFT JOIN text AS t ON t.key = s.system;

CREATE VIEW branches WITH (security_invoker = true) AS
SELECT uuid_text(b.id) AS id, uuid_text(b.session_id) AS session_id, iso_time(b.created_at) AS created_at,
  uuid_text(b.base_state) AS base_state, uuid_text(b.head_state) AS head_state, b.head_seq, b.label,
  uuid_text(b.parent_id) AS parent_id, b.fork_seq, b.last_turn_seq
FROM branch AS b;

CREATE VIEW states WITH (security_invoker = true) AS
SELECT uuid_text(s.id) AS id, uuid_text(s.session_id) AS session_id, uuid_text(s.branch_id) AS branch_id, s.state_seq,
  uuid_text(s.parent_id) AS parent_id, coalesce(summary.body, '') AS summary,
  coalesce((SELECT string_agg(f.fact, E'\n' ORDER BY f.place)
    FROM json_array_elements_text(pins.body::json) WITH ORDINALITY AS f (fact, place)), '') AS pinned_facts,
  s.token_count_est, iso_time(s.created_at) AS created_at, s.schema_version, s.turn_seq, s.covers_turn_seq, s.reason
FROM state AS s LEFT JOIN text AS summary ON summary.key = s.summary LEFT JOIN text AS pins ON pins.key = s.pins;

CREATE VIEW turns WITH (security_invoker = true) AS
SELECT uuid_text(t.id) AS id, uuid_text(t.session_id) AS session_id, uuid_text(t.branch_id) AS branch_id, t.turn_seq,
  uuid_text(t.state_before) AS state_before, uuid_text(t.state_after) AS state_after, t.phase,
  json_build_object('role', q.role, 'blocks', blocks_json(q.text, q.blocks), 'rendered_text',
    rendered_text(q.text, q.blocks))::text AS user_message_json,
  CASE WHEN a.key IS NOT NULL THEN json_build_object('role', a.role, 'blocks', blocks_json(a.text, a.blocks),
    'rendered_text', rendered_text(a.text, a.blocks))::text END AS final_assistant_message_json,
  t.provider AS primary_provider, t.model AS primary_model, iso_time(t.created_at) AS created_at,
  iso_time(t.updated_at) AS updated_at, t.outcome, t.owner, t.degraded, t.error::json ->> 'is' AS error_json
FROM turn AS t JOIN message AS q ON q.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer;

CREATE VIEW steps WITH (security_invoker = true) AS
SELECT uuid_text(st.id) AS id, uuid_text(st.turn_id) AS turn_id, st.step_index, st.provider, st.model_id,
  coalesce(p.body::json ->> 'is', '{}') AS request_json,
  CASE WHEN r.step_id IS NOT NULL THEN json_build_object('zlib_bytes', length(r.body))::text END AS response_json,
  coalesce((SELECT json_agg(CASE i.item ->> 'type'
      WHEN 'answer' THEN json_build_object('type', 'assistant_message', 'blocks',
        (SELECT json_agg(b.block ORDER BY b.place)
          FROM json_array_elements(blocks_json(a.text, a.blocks)) WITH ORDINALITY AS b (block, place)
          WHERE a.blocks IS NULL OR (b.place > coalesce((i.item ->> 'start')::bigint, 0)
            AND b.place <= coalesce((i.item ->> 'stop')::bigint, b.place))))
      WHEN 'call' THEN (SELECT json_build_object('type', 'tool_call', 'call_id', b.block -> 'tool_use_id',
          'name', b.block -> 'name', 'arguments', b.block -> 'input')
        FROM json_array_elements(a.blocks::json #> '{is,blocks}') WITH ORDINALITY AS b (block, place)
        WHERE b.place = (i.item ->> 'at')::bigint + 1)
      ELSE i.item END ORDER BY i.place)
    FROM json_array_elements(st.items::json #> '{is,items}') WITH ORDINALITY AS i (item, place))::text, '[]')
    AS normalized_items_json,
  coalesce(st.outcome::json ->> 'is', 'null') AS outcome_json, 'streams/' || uuid_text(st.id) || '.jsonl' AS stream_path,
  st.displayed_bytes AS stream_displayed_bytes, st.durable_bytes AS stream_durable_bytes,
  iso_time(st.started_at) AS started_at, iso_time(st.ended_at) AS ended_at
FROM step AS st JOIN turn AS t ON t.id = st.turn_id LEFT JOIN message AS a ON a.key = t.answer
  LEFT JOIN plan AS p ON p.turn_id = st.turn_id AND p.step_index = st.step_index
  LEFT JOIN response AS r ON r.step_id = st.id;

CREATE VIEW jobs WITH (security_invoker = true) AS
SELECT j.id, j.job_type, uuid_text(j.turn_id) AS turn_id, j.state, j.attempts, j.last_error,
  iso_time(j.created_at) AS created_at, iso_time(j.updated_at) AS updated_at, uuid_text(j.branch_id) AS branch_id,
  j.turn_seq, j.owner, iso_time(j.run_at) AS run_at
FROM job AS j;

CREATE VIEW chunks WITH (security_invoker = true) AS
SELECT uuid_text(c.id) AS id, uuid_text(c.session_id) AS session_id, uuid_text(c.branch_id) AS branch_id,
  uuid_text(c.turn_id) AS source_turn,
  CASE c.side WHEN 'tool' THEN '' ELSE
    substr(rendered_text(m.text, m.blocks), (c.start + 1)::int, (c."end" - c.start)::int) END AS rendered_text, c.summary,
  CASE WHEN v.key IS NULL THEN '' ELSE n.name END AS embedding_model,
  CASE WHEN v.key IS NULL THEN 0 ELSE n.dim END AS embedding_dim, coalesce(v.body, '') AS embedding,
  c.chunk_type, c.token_est, c.content_hash, iso_time(c.created_at) AS created_at, c.side, c.start, c."end"
FROM chunk AS c JOIN turn AS t ON t.id = c.turn_id
  JOIN message AS m ON m.key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END
  LEFT JOIN namespace AS n ON n.state = 'current'
  LEFT JOIN vector AS v ON v.chunk_key = c.key AND v.namespace_key = n.key;

CREATE VIEW retrievals WITH (security_invoker = true) AS
SELECT uuid_text(r.turn_id) AS turn_id, uuid_text(r.chunk_id) AS chunk_id, r.similarity, r.rank FROM retrieval AS r;

-- The rows of a chat log, one a turn of the session's first branch, without those past their time to live.
CREATE VIEW conversation_turns WITH (security_invoker = true) AS
SELECT uuid_text(t.id) AS id, uuid_text(s.id) AS session_id, s.user_id, t.turn_seq AS turn_number,
  rendered_text(q.text, q.blocks) AS query_text, rendered_text(a.text, a.blocks) AS response_text,
  iso_time(t.created_at) AS created_at, coalesce(t.metadata, '{}') AS metadata
FROM session AS s JOIN branch AS b ON b.session_id = s.id AND b.parent_id IS NULL JOIN turn AS t ON t.branch_id = b.id
  JOIN message AS q ON q.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
  LEFT JOIN expiry AS e ON e.session_id = s.id
WHERE e.ttl IS NULL OR t.created_at + e.ttl > extract(epoch FROM now()) * 1000;
