-- The checks of an operation's status and outcome as comparisons. SQLite builds
-- a table for a list of more than two constants each time a statement runs,
-- which took a tenth of the writer's time. What is allowed stays the same and
-- no row changes, so only the text of the declaration does, as section 8 of
-- https://sqlite.org/lang_altertable.html has it.

PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(replace(sql,
  'CHECK (status IN
                     (''reserved'', ''refused'', ''dispatched'', ''settled_ok'', ''settled_failed'', ''uncertain'', ''released''))',
  'CHECK (status = ''settled_ok'' OR status = ''reserved'' OR status = ''dispatched'' OR status = ''settled_failed''
                     OR status = ''uncertain'' OR status = ''released'' OR status = ''refused'')'),
  'CHECK (outcome IN (''ok'', ''failed'', ''unknown''))',
  'CHECK (outcome = ''ok'' OR outcome = ''failed'' OR outcome = ''unknown'')')
WHERE type = 'table' AND name = 'operation';

PRAGMA writable_schema = RESET;
