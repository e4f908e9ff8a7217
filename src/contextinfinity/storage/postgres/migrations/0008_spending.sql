-- What the models of a user's turns cost in US dollars, by day (UTC, counted from 1970). It outlives the conversations.
CREATE TABLE spending (
  org_id text NOT NULL,
  user_id text NOT NULL,
  day bigint NOT NULL,
  dollars double precision NOT NULL,
  tenant uuid DEFAULT current_tenant(),
  PRIMARY KEY (org_id, user_id, day)
);
CREATE TRIGGER a_tenant BEFORE INSERT OR UPDATE OF org_id, user_id, tenant ON spending
  FOR EACH ROW EXECUTE FUNCTION tenant_from_owner();
ALTER TABLE spending ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON spending USING (tenant = (SELECT current_tenant()));
CREATE POLICY maintenance ON spending TO CURRENT_USER USING (true) WITH CHECK (true);
