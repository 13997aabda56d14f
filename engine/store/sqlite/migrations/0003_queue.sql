-- What a campaign's allotments weigh against its cap is a running sum, and
-- campaigns that wait for a ceiling have a place in its queue.

CREATE TABLE purse (
  campaign TEXT    NOT NULL,
  funds    TEXT    NOT NULL,
  weight   INTEGER NOT NULL CHECK (weight >= 0),
  PRIMARY KEY (campaign, funds)
) STRICT, WITHOUT ROWID;

INSERT INTO purse (campaign, funds, weight)
SELECT campaign, funds, sum(CASE released WHEN 1 THEN charged + kept ELSE amount END)
FROM allotment GROUP BY campaign, funds;

CREATE TABLE ticket (
  n         INTEGER PRIMARY KEY AUTOINCREMENT,
  ceiling   TEXT    NOT NULL,
  funds     TEXT    NOT NULL,
  campaign  TEXT    NOT NULL,
  allotment TEXT    NOT NULL,
  amount    INTEGER NOT NULL CHECK (amount > 0),
  lease     TEXT    NOT NULL,
  token     TEXT    NOT NULL,
  UNIQUE (ceiling, funds, campaign),
  FOREIGN KEY (ceiling, funds) REFERENCES ceiling (name, funds)
) STRICT;
