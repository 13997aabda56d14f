-- Overruns of single operations can be acknowledged, and the allotments that are
-- still open on a ceiling are found without reading the closed ones.

ALTER TABLE operation ADD COLUMN acknowledged INTEGER NOT NULL DEFAULT 0 CHECK (acknowledged IN (0, 1));

CREATE INDEX allotment_open ON allotment (ceiling, funds, n) WHERE released = 0;
