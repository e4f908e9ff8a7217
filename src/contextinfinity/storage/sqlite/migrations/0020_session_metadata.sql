-- What doors keep of a session beside what is said in it, as a JSON object; NULL: nothing.
ALTER TABLE session ADD COLUMN metadata TEXT;
