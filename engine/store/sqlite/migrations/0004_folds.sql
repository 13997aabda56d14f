-- A snapshot can hold what runtime, world and owner have made of the rows it
-- covers, so that a restart reads only the rows after it.

ALTER TABLE snapshot ADD COLUMN folds BLOB;
