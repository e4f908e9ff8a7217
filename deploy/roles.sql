-- The roles of docs/howto/postgresql.md. Change the passwords.
CREATE ROLE cix_owner LOGIN PASSWORD 'one' NOSUPERUSER NOBYPASSRLS;
CREATE ROLE cix_serving LOGIN PASSWORD 'another' NOSUPERUSER NOBYPASSRLS;
CREATE DATABASE contextinfinity OWNER cix_owner;
