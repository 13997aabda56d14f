package sqlite

// SQL of records. Every list is ordered by a unique key.
const (
	ceilingColumns = `name, funds, total, charged, held, max_sum, halted, overruns`

	sqlCeiling = `SELECT ` + ceilingColumns + ` FROM ceiling WHERE name = ? AND funds = ?`

	sqlCeilings = `SELECT ` + ceilingColumns + ` FROM ceiling ORDER BY name, funds`

	sqlPutCeiling = `INSERT INTO ceiling (` + ceilingColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name, funds) DO UPDATE SET total = excluded.total, charged = excluded.charged, held = excluded.held,
  max_sum = excluded.max_sum, halted = excluded.halted, overruns = excluded.overruns`

	sqlInsertLedger = `INSERT INTO ledger (ceiling, funds, kind, ref, campaign, delta_charged, delta_held, total, charged, held)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	sqlLedger = `SELECT n, ceiling, funds, kind, ref, campaign, delta_charged, delta_held, total, charged, held
FROM ledger WHERE n > ? ORDER BY n LIMIT ?`

	allotmentColumns = `id, ceiling, funds, campaign, amount, campaign_cap, released, charged, kept`

	sqlAllotment = `SELECT ` + allotmentColumns + ` FROM allotment WHERE id = ?`

	sqlAllotments = `SELECT ` + allotmentColumns + ` FROM allotment WHERE campaign = ? ORDER BY n`

	sqlOpenAllotments = `SELECT ` + allotmentColumns + ` FROM allotment WHERE ceiling = ? AND funds = ? AND released = 0 ORDER BY n`

	sqlPurse = `SELECT weight FROM purse WHERE campaign = ? AND funds = ?`

	sqlAddToPurse = `INSERT INTO purse (campaign, funds, weight) VALUES (?, ?, ?)
ON CONFLICT (campaign, funds) DO UPDATE SET weight = weight + excluded.weight`

	sqlMovePurse = `UPDATE purse SET weight = weight + ? WHERE campaign = ? AND funds = ?`

	sqlTickets = `SELECT t.n, t.ceiling, t.funds, t.campaign, t.allotment, t.amount, t.lease, t.token,
  COALESCE(l.token, ''), COALESCE(l.expires_us, 0)
FROM ticket AS t LEFT JOIN lease AS l ON l.name = t.lease WHERE t.ceiling = ? AND t.funds = ? ORDER BY t.n`

	sqlInsertTicket = `INSERT INTO ticket (ceiling, funds, campaign, allotment, amount, lease, token)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING n`

	sqlSetTicket = `UPDATE ticket SET allotment = ?, amount = ? WHERE n = ?`

	sqlDropTicket = `DELETE FROM ticket WHERE ceiling = ? AND funds = ? AND campaign = ?`

	sqlInsertAllotment = `INSERT INTO allotment (` + allotmentColumns + `) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)`

	sqlReleaseAllotment = `UPDATE allotment SET released = 1, charged = ?, kept = ? WHERE id = ? AND released = 0`

	campaignColumns = `id, name, plan_digest, registration, plan, status, totals, seq`

	sqlCampaign = `SELECT ` + campaignColumns + ` FROM campaign WHERE id = ?`

	sqlCampaigns = `SELECT ` + campaignColumns + ` FROM campaign WHERE ?1 = '' OR name = ?1 ORDER BY seq`

	sqlCampaignExists = `SELECT 1 FROM campaign WHERE id = ?`

	sqlInsertCampaign = `INSERT INTO campaign (id, name, plan_digest, registration, plan, status, totals)
VALUES (?, ?, ?, ?, ?, ?, ?)`

	sqlCampaignStatus = `UPDATE campaign SET status = ?1, totals = COALESCE(?2, totals) WHERE id = ?3`

	trialColumns = `campaign, key, place, arm, case_id, trial_index, room, allotment, status, termination, trace_digest,
  total, charged, held, unknown`

	sqlTrial = `SELECT ` + trialColumns + ` FROM trial WHERE campaign = ? AND key = ?`

	sqlTrials = `SELECT ` + trialColumns + ` FROM trial WHERE campaign = ? ORDER BY key`

	sqlCountTrials = `SELECT count(*) FROM trial WHERE campaign = ?`

	sqlPutTrial = `INSERT INTO trial (` + trialColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (campaign, key) DO UPDATE SET place = excluded.place, arm = excluded.arm, case_id = excluded.case_id,
  trial_index = excluded.trial_index, room = excluded.room, allotment = excluded.allotment, status = excluded.status,
  termination = excluded.termination, trace_digest = excluded.trace_digest, total = excluded.total,
  charged = excluded.charged, held = excluded.held, unknown = excluded.unknown
WHERE trial.status NOT IN ('closed', 'not_run')`

	sqlTrace       = `SELECT digest, content FROM trace WHERE campaign = ? AND key = ?`
	sqlInsertTrace = `INSERT INTO trace (campaign, key, digest, content) VALUES (?, ?, ?, ?)`

	sqlNow      = `SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)`
	sqlLease    = `SELECT token, owner, generation, expires_us FROM lease WHERE name = ?`
	sqlLeases   = `SELECT name, token, owner, generation, expires_us FROM lease WHERE token <> '' ORDER BY name`
	sqlPutLease = `INSERT INTO lease (name, token, owner, generation, expires_us) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner,
  generation = excluded.generation, expires_us = excluded.expires_us`

	sqlLastSeal   = `SELECT n, digest FROM seal ORDER BY n DESC LIMIT 1`
	sqlInsertSeal = `INSERT INTO seal (n, kind, body, prev, digest) VALUES (?, ?, ?, ?, ?)`
	sqlSeals      = `SELECT n, kind, body, prev, digest FROM seal ORDER BY n`
)
