-- Made from the migrations: read this, but change those.

CREATE VIEW branches AS
SELECT b.uuid AS id, s.uuid AS session_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', b.created_at / 1000.0, 'unixepoch') AS created_at,
  base.uuid AS base_state, head.uuid AS head_state, b.head_seq, b.label,
  parent.uuid AS parent_id, b.fork_seq, b.last_turn_seq
FROM branch AS b JOIN session AS s ON s.id = b.session_id
  JOIN state AS base ON base.id = b.base_state JOIN state AS head ON head.id = b.head_state
  LEFT JOIN branch AS parent ON parent.id = b.parent_id;

CREATE VIEW chunks AS
SELECT c.uuid AS id, s.uuid AS session_id, br.uuid AS branch_id, t.uuid AS source_turn,
  CASE c.side WHEN 'tool' THEN '' ELSE substr(coalesce(m.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(m.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), ''),
    c.start + 1, c.end - c.start) END AS rendered_text, c.summary,
  CASE WHEN v.key IS NULL THEN '' ELSE n.name END AS embedding_model,
  CASE WHEN v.key IS NULL THEN 0 ELSE n.dim END AS embedding_dim,
  coalesce((SELECT l.body FROM loose_vector AS l WHERE l.key = v.key),
    (SELECT (SELECT substr(p.bodies, 1 + b.key * (n.dim + 4), n.dim + 4) FROM json_each(p.keys) AS b
      WHERE b.value = v.key) FROM vector_pack AS p
    WHERE p.namespace_key = n.key AND p.session_id = c.session_id AND p.last >= v.key ORDER BY p.last LIMIT 1),
    x'') AS embedding,
  c.chunk_type, c.token_est, c.content_hash,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch') AS created_at, c.side, c.start, c.end
FROM session AS s JOIN branch AS br ON br.session_id = s.id JOIN turn AS t ON t.branch_id = br.id
  JOIN chunk AS c ON c.turn_id = t.id
  JOIN message AS m ON m.key = CASE c.side WHEN 'assistant' THEN t.answer ELSE t.user_message END
  LEFT JOIN namespace AS n ON n.state = 'current'
  LEFT JOIN vector AS v ON v.chunk_key = c.key AND v.namespace_key = n.key;

CREATE VIEW conversation_turns AS
SELECT t.uuid AS id, s.uuid AS session_id, s.user_id, t.turn_seq AS turn_number,
  coalesce(q.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(q.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '') AS query_text,
  coalesce(a.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(a.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '') AS response_text,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
  coalesce(t.metadata, '{}') AS metadata
FROM session AS s JOIN branch AS br ON br.session_id = s.id AND br.parent_id IS NULL
  JOIN turn AS t ON t.branch_id = br.id
  JOIN message AS q ON q.key = t.user_message LEFT JOIN message AS a ON a.key = t.answer
  LEFT JOIN expiry AS e ON e.session_id = s.id
WHERE e.ttl IS NULL OR t.created_at + e.ttl > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER);

CREATE VIEW jobs AS
SELECT j.id, j.job_type, t.uuid AS turn_id, j.state, j.attempts, j.last_error,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.updated_at / 1000.0, 'unixepoch') AS updated_at,
  b.uuid AS branch_id, j.turn_seq, j.owner,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.run_at / 1000.0, 'unixepoch') AS run_at
FROM job AS j JOIN branch AS b ON b.id = j.branch_id LEFT JOIN turn AS t ON t.id = j.turn_id;

CREATE VIEW messages AS
SELECT m.key, s.uuid AS session_id, m.role,
  coalesce(m.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(m.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '') AS rendered_text,
  coalesce(json_extract(m.blocks, '$.is.blocks'),
    json_array(json_object('type', 'text', 'text', m.text))) AS blocks_json,
  lower(hex(m.content_hash)) AS content_hash
FROM message AS m JOIN session AS s ON s.id = m.session_id;

CREATE VIEW retrievals AS
SELECT t.uuid AS turn_id, c.uuid AS chunk_id, r.similarity, r.rank
FROM retrieval AS r JOIN turn AS t ON t.id = r.turn_id JOIN chunk AS c ON c.id = r.chunk_id;

CREATE VIEW sessions AS
SELECT s.uuid AS id, strftime('%Y-%m-%dT%H:%M:%fZ', s.created_at / 1000.0, 'unixepoch') AS created_at, s.title,
  b.uuid AS active_branch, s.org_id, s.user_id, s.external_id, s.kind, s.ttl_hours, t.body AS system,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.updated_at / 1000.0, 'unixepoch') AS updated_at
FROM session AS s JOIN branch AS b ON b.id = s.active_branch LEFT JOIN text AS t ON t.key = s.system;

CREATE VIEW states AS
SELECT st.uuid AS id, s.uuid AS session_id, b.uuid AS branch_id, st.state_seq, parent.uuid AS parent_id,
  coalesce(summary.body, '') AS summary,
  coalesce((SELECT group_concat(fact, char(10)) FROM (
    SELECT f.value AS fact FROM json_each(pins.body) AS f ORDER BY f.key)), '') AS pinned_facts,
  st.token_count_est, strftime('%Y-%m-%dT%H:%M:%fZ', st.created_at / 1000.0, 'unixepoch') AS created_at,
  st.schema_version, st.turn_seq, st.covers_turn_seq, st.reason
FROM state AS st JOIN session AS s ON s.id = st.session_id JOIN branch AS b ON b.id = st.branch_id
  LEFT JOIN state AS parent ON parent.id = st.parent_id
  LEFT JOIN text AS summary ON summary.key = st.summary LEFT JOIN text AS pins ON pins.key = st.pins;

CREATE VIEW steps AS
SELECT st.uuid AS id, t.uuid AS turn_id, st.step_index, st.provider, st.model_id,
  coalesce(json_extract(p.body, '$.is'), '{}') AS request_json,
  CASE WHEN r.step_id IS NOT NULL THEN json_object('zlib_bytes', length(r.body)) END AS response_json,
  coalesce((SELECT json_group_array(json(item)) FROM (
    SELECT CASE json_extract(i.value, '$.type')
      WHEN 'answer' THEN json_object('type', 'assistant_message', 'blocks', CASE WHEN a.blocks IS NULL
        THEN json_array(json_object('type', 'text', 'text', a.text))
        ELSE (SELECT json_group_array(json(block)) FROM (
          SELECT b.value AS block FROM json_each(a.blocks, '$.is.blocks') AS b
          WHERE b.key >= coalesce(json_extract(i.value, '$.start'), 0)
            AND b.key < coalesce(json_extract(i.value, '$.stop'), b.key + 1) ORDER BY b.key)) END)
      WHEN 'call' THEN (
        SELECT json_object('type', 'tool_call', 'call_id', json_extract(b.value, '$.tool_use_id'),
          'name', json_extract(b.value, '$.name'), 'arguments', json(b.value -> '$.input'))
        FROM json_each(a.blocks, '$.is.blocks') AS b WHERE b.key = json_extract(i.value, '$.at'))
      ELSE i.value END AS item
    FROM json_each(st.items, '$.is.items') AS i ORDER BY i.key)), '[]') AS normalized_items_json,
  coalesce(json_extract(st.outcome, '$.is'), 'null') AS outcome_json,
  'streams/' || st.uuid || '.jsonl' AS stream_path,
  st.displayed_bytes AS stream_displayed_bytes, st.durable_bytes AS stream_durable_bytes,
  strftime('%Y-%m-%dT%H:%M:%fZ', st.started_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', st.ended_at / 1000.0, 'unixepoch') AS ended_at
FROM turn AS t JOIN step AS st ON st.turn_id = t.id LEFT JOIN message AS a ON a.key = t.answer
  LEFT JOIN plan AS p ON p.turn_id = st.turn_id AND p.step_index = st.step_index
  LEFT JOIN response AS r ON r.step_id = st.id;

CREATE VIEW turns AS
SELECT t.uuid AS id, s.uuid AS session_id, br.uuid AS branch_id, t.turn_seq,
  before.uuid AS state_before, after.uuid AS state_after, t.phase,
  json_object('role', um.role, 'blocks', json(coalesce(json_extract(um.blocks, '$.is.blocks'),
      json_array(json_object('type', 'text', 'text', um.text)))),
    'rendered_text', coalesce(um.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(um.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '')) AS user_message_json,
  CASE WHEN am.key IS NOT NULL THEN json_object('role', am.role, 'blocks', json(coalesce(json_extract(am.blocks, '$.is.blocks'),
      json_array(json_object('type', 'text', 'text', am.text)))),
    'rendered_text', coalesce(am.text, (SELECT group_concat(piece, '') FROM (
    SELECT json_extract(b.value, '$.text') AS piece FROM json_each(am.blocks, '$.is.blocks') AS b
    WHERE json_extract(b.value, '$.type') = 'text' ORDER BY b.key)), '')) END AS final_assistant_message_json,
  t.provider AS primary_provider, t.model AS primary_model,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.updated_at / 1000.0, 'unixepoch') AS updated_at,
  t.outcome, t.owner, t.degraded, json_extract(t.error, '$.is') AS error_json
FROM session AS s JOIN branch AS br ON br.session_id = s.id JOIN turn AS t ON t.branch_id = br.id
  JOIN state AS before ON before.id = t.state_before LEFT JOIN state AS after ON after.id = t.state_after
  JOIN message AS um ON um.key = t.user_message LEFT JOIN message AS am ON am.key = t.answer;
