-- Tokens.

-- name: insert_token
-- A token, by the hash of its text.
INSERT INTO token (sha256, id, org_id, user_id, scope, created_at, expires_at)
VALUES (:sha256, :id, :org_id, :user_id, :scope, :now, :expires_at)

-- name: select_token
-- The token of a hash.
SELECT id, org_id, user_id, scope, created_at, revoked_at, expires_at FROM token WHERE sha256 = ?

-- name: select_token_by_id
-- One token by its id.
SELECT id, org_id, user_id, scope, created_at, revoked_at, expires_at FROM token WHERE id = ?

-- name: select_tokens
-- All of them, the oldest first.
SELECT id, org_id, user_id, scope, created_at, revoked_at, expires_at FROM token INDEXED BY token_by_id
WHERE id > x'' ORDER BY id LIMIT ?

-- name: revoke_token
-- Revoke it; the first time is kept.
UPDATE token SET revoked_at = coalesce(revoked_at, :now) WHERE id = :id

-- name: any_token
-- Whether there ever was one.
SELECT EXISTS (SELECT 1 FROM token INDEXED BY token_by_id WHERE id > x'')
