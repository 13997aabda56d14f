-- Rooms. Data tables grow at their end, so that rooms committing together
-- share pages; unique indexes carry the keys.

CREATE TABLE room (
  n            INTEGER PRIMARY KEY AUTOINCREMENT,
  id           TEXT    NOT NULL UNIQUE,
  funds        TEXT    NOT NULL CHECK (funds IN ('real', 'simulated')),
  salt         BLOB    NOT NULL,
  allotment    TEXT    NOT NULL,
  machine      TEXT    NOT NULL,
  rev          INTEGER NOT NULL CHECK (rev >= -1),
  digest       TEXT    NOT NULL,
  state_digest TEXT    NOT NULL,
  total        INTEGER NOT NULL CHECK (total >= 0),
  charged      INTEGER NOT NULL CHECK (charged >= 0),
  held         INTEGER NOT NULL CHECK (held >= 0),
  unknown      INTEGER NOT NULL CHECK (unknown BETWEEN 0 AND held),
  halted       INTEGER NOT NULL CHECK (halted IN (0, 1)),
  closed       INTEGER NOT NULL CHECK (closed IN (0, 1)),
  termination  TEXT    NOT NULL,
  closed_at_us INTEGER NOT NULL
) STRICT;

CREATE TABLE revision (
  n               INTEGER PRIMARY KEY,
  room            INTEGER NOT NULL REFERENCES room (n),
  rev             INTEGER NOT NULL CHECK (rev >= 0),
  machine         TEXT    NOT NULL,
  event           BLOB    NOT NULL,
  commands        BLOB    NOT NULL,
  commands_digest TEXT    NOT NULL,
  state_digest    TEXT    NOT NULL,
  prev            TEXT    NOT NULL,
  digest          TEXT    NOT NULL,
  UNIQUE (room, rev)
) STRICT;

CREATE TABLE operation (
  n                INTEGER PRIMARY KEY,
  room             INTEGER NOT NULL REFERENCES room (n),
  id               TEXT    NOT NULL,
  kind             TEXT    NOT NULL,
  cause            TEXT    NOT NULL,
  attempt          INTEGER NOT NULL,
  key_ordinal      INTEGER NOT NULL,
  rev              INTEGER NOT NULL,
  ordinal          INTEGER NOT NULL,
  agent            TEXT    NOT NULL,
  role             TEXT    NOT NULL,
  task             TEXT    NOT NULL,
  tool             TEXT    NOT NULL,
  request          BLOB,
  request_digest   TEXT    NOT NULL,
  reserved         INTEGER NOT NULL CHECK (reserved >= 0),
  deadline_us      INTEGER NOT NULL,
  status           TEXT    NOT NULL CHECK (status IN
                     ('reserved', 'refused', 'dispatched', 'settled_ok', 'settled_failed', 'uncertain', 'released')),
  charged          INTEGER NOT NULL CHECK (charged >= 0),
  dispatched_at_us INTEGER NOT NULL,
  outcome          TEXT CHECK (outcome IN ('ok', 'failed', 'unknown')), -- NULL while there is no receipt
  start_us         INTEGER NOT NULL,
  finish_us        INTEGER NOT NULL,
  receipt_charged  INTEGER NOT NULL,
  usage_source     TEXT    NOT NULL,
  usage            TEXT,
  result           BLOB,
  reconciled       TEXT,
  UNIQUE (room, id)
) STRICT;

CREATE TABLE effect (
  n    INTEGER PRIMARY KEY,
  room INTEGER NOT NULL REFERENCES room (n),
  op   TEXT    NOT NULL,
  ord  INTEGER NOT NULL CHECK (ord >= 0),
  seq  INTEGER NOT NULL,
  body TEXT    NOT NULL,
  UNIQUE (room, seq),
  UNIQUE (room, op, ord),
  FOREIGN KEY (room, op) REFERENCES operation (room, id)
) STRICT;

CREATE TABLE blob (
  n       INTEGER PRIMARY KEY,
  room    INTEGER NOT NULL REFERENCES room (n),
  digest  TEXT    NOT NULL,
  media   TEXT    NOT NULL,
  content BLOB    NOT NULL,
  UNIQUE (room, digest)
) STRICT;

CREATE TABLE outbox (
  n         INTEGER PRIMARY KEY,
  room      INTEGER NOT NULL REFERENCES room (n),
  id        TEXT    NOT NULL,
  rev       INTEGER NOT NULL,
  body      BLOB    NOT NULL,
  delivered INTEGER NOT NULL CHECK (delivered IN (0, 1)),
  UNIQUE (room, id)
) STRICT;
CREATE INDEX outbox_waiting ON outbox (room, n) WHERE delivered = 0;

CREATE TABLE remembered (
  room  INTEGER NOT NULL REFERENCES room (n),
  space TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  value TEXT    NOT NULL,
  PRIMARY KEY (room, space, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshot (
  room    INTEGER PRIMARY KEY REFERENCES room (n),
  rev     INTEGER NOT NULL,
  machine TEXT    NOT NULL,
  state   BLOB    NOT NULL
) STRICT;

-- Records.

CREATE TABLE ceiling (
  name     TEXT    NOT NULL,
  funds    TEXT    NOT NULL CHECK (funds IN ('real', 'simulated')),
  total    INTEGER NOT NULL CHECK (total >= 0),
  charged  INTEGER NOT NULL CHECK (charged >= 0),
  held     INTEGER NOT NULL CHECK (held >= 0),
  max_sum  INTEGER NOT NULL,
  halted   INTEGER NOT NULL CHECK (halted IN (0, 1)),
  overruns TEXT    NOT NULL, -- JSON list of allotment ids
  PRIMARY KEY (name, funds)
) STRICT, WITHOUT ROWID;

CREATE TABLE campaign (
  seq          INTEGER PRIMARY KEY AUTOINCREMENT,
  id           TEXT NOT NULL UNIQUE,
  name         TEXT NOT NULL,
  plan_digest  TEXT NOT NULL,
  registration TEXT NOT NULL,
  plan         BLOB,
  status       TEXT NOT NULL,
  totals       BLOB
) STRICT;

CREATE TABLE allotment (
  n            INTEGER PRIMARY KEY AUTOINCREMENT,
  id           TEXT    NOT NULL UNIQUE,
  ceiling      TEXT    NOT NULL,
  funds        TEXT    NOT NULL,
  campaign     TEXT    NOT NULL,
  amount       INTEGER NOT NULL CHECK (amount > 0),
  campaign_cap INTEGER NOT NULL,
  released     INTEGER NOT NULL CHECK (released IN (0, 1)),
  charged      INTEGER NOT NULL,
  kept         INTEGER NOT NULL,
  FOREIGN KEY (ceiling, funds) REFERENCES ceiling (name, funds)
) STRICT;
CREATE INDEX allotment_campaign ON allotment (campaign, funds);

CREATE TABLE ledger (
  n             INTEGER PRIMARY KEY AUTOINCREMENT,
  ceiling       TEXT    NOT NULL,
  funds         TEXT    NOT NULL,
  kind          TEXT    NOT NULL CHECK (kind IN ('ceiling', 'allot', 'release', 'grant', 'overrun', 'ack')),
  ref           TEXT    NOT NULL,
  campaign      TEXT    NOT NULL,
  delta_charged INTEGER NOT NULL,
  delta_held    INTEGER NOT NULL,
  total         INTEGER NOT NULL,
  charged       INTEGER NOT NULL,
  held          INTEGER NOT NULL,
  FOREIGN KEY (ceiling, funds) REFERENCES ceiling (name, funds)
) STRICT;

CREATE TABLE trial (
  campaign     TEXT    NOT NULL REFERENCES campaign (id),
  key          TEXT    NOT NULL,
  place        INTEGER NOT NULL,
  arm          TEXT    NOT NULL,
  case_id      TEXT    NOT NULL,
  trial_index  INTEGER NOT NULL,
  room         TEXT    NOT NULL,
  allotment    TEXT    NOT NULL,
  status       TEXT    NOT NULL,
  termination  TEXT    NOT NULL,
  trace_digest TEXT    NOT NULL,
  total        INTEGER NOT NULL,
  charged      INTEGER NOT NULL,
  held         INTEGER NOT NULL,
  unknown      INTEGER NOT NULL,
  PRIMARY KEY (campaign, key)
) STRICT;

CREATE TABLE trace (
  campaign TEXT NOT NULL REFERENCES campaign (id),
  key      TEXT NOT NULL,
  digest   TEXT NOT NULL,
  content  BLOB,
  PRIMARY KEY (campaign, key)
) STRICT;

CREATE TABLE lease (
  name       TEXT    NOT NULL PRIMARY KEY,
  token      TEXT    NOT NULL, -- empty when free
  owner      TEXT    NOT NULL,
  generation INTEGER NOT NULL,
  expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE seal (
  n      INTEGER PRIMARY KEY,
  kind   TEXT NOT NULL,
  body   BLOB,
  prev   TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT;
