package sqlite

// SQL of rooms. Every list is ordered by a unique key.
const (
	sqlRoomInfo = `SELECT n, funds FROM room WHERE id = ?`

	sqlInsertRoom = `INSERT INTO room (id, funds, salt, allotment, machine, rev, digest, state_digest,
  total, charged, held, unknown, halted, closed, termination, closed_at_us)
VALUES (?, ?, ?, ?, ?, -1, '', '', ?, 0, 0, 0, 0, 0, '', 0) RETURNING n`

	headColumns = `id, funds, salt, allotment, machine, rev, digest, state_digest,
  total, charged, held, unknown, halted, closed, termination, closed_at_us`

	sqlHead = `SELECT ` + headColumns + ` FROM room WHERE n = ?`

	// The range ends behind the last id with the prefix: closing a room, which
	// reads its head by its id, must not read the rooms behind it.
	sqlHeads = `SELECT ` + headColumns + ` FROM room
WHERE id >= ?1 AND id < ?1 || char(1114111) AND substr(id, 1, length(?1)) = ?1 ORDER BY id`

	sqlAdvanceHead = `UPDATE room SET machine = ?, rev = ?, digest = ?, state_digest = ?,
  charged = ?, held = ?, unknown = ?, halted = ? WHERE n = ? AND rev = ? AND digest = ?`

	sqlUpdateMoney = `UPDATE room SET charged = ?, held = ?, unknown = ?, halted = ? WHERE n = ?`

	sqlCloseRoom = `UPDATE room SET closed = 1, termination = ?, closed_at_us = ? WHERE n = ? AND closed = 0`

	sqlInsertRow = `INSERT INTO revision (room, rev, machine, event, commands, commands_digest, state_digest, prev, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	sqlRows = `SELECT rev, machine, event, commands, commands_digest, state_digest, prev, digest
FROM revision WHERE room = ? AND rev > ? ORDER BY rev LIMIT ?`

	opColumns = `id, kind, cause, attempt, key_ordinal, rev, ordinal, agent, role, task, tool, request_digest, reserved,
  deadline_us, status, charged, dispatched_at_us, outcome, start_us, finish_us, receipt_charged, usage_source, usage, result, reconciled, acknowledged`

	sqlOp = `SELECT ` + opColumns + ` FROM operation WHERE room = ? AND id = ?`

	sqlOpWhole = `SELECT ` + opColumns + `, request FROM operation WHERE room = ? AND id = ?`

	sqlOps = `SELECT ` + opColumns + `, request FROM operation WHERE room = ? ORDER BY rev, ordinal`

	sqlOpExists = `SELECT 1 FROM operation WHERE room = ? AND id = ?`

	sqlInsertOp = `INSERT INTO operation (room, id, kind, cause, attempt, key_ordinal, rev, ordinal, agent, role, task, tool,
  request, request_digest, reserved, deadline_us, status, charged, dispatched_at_us,
  start_us, finish_us, receipt_charged, usage_source)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, '')`

	sqlDispatchOp = `UPDATE operation SET status = 'dispatched' WHERE room = ? AND id = ? AND status = 'reserved'`

	sqlSettleOp = `UPDATE operation SET status = ?, charged = ?, dispatched_at_us = ?, request = NULL,
  outcome = ?, start_us = ?, finish_us = ?, receipt_charged = ?, usage_source = ?, usage = ?, result = ?
WHERE room = ? AND id = ? AND outcome IS NULL`

	sqlReconcileOp = `UPDATE operation SET status = ?, charged = ?, reconciled = ?
WHERE room = ? AND id = ? AND status = 'uncertain' AND reconciled IS NULL`

	sqlOverrun = `SELECT id, rev, ordinal FROM operation
WHERE room = ?1 AND charged > reserved AND acknowledged = 0 AND (rev > ?2 OR rev = ?2 AND ordinal > ?3) ORDER BY rev, ordinal LIMIT 1`

	sqlGrantRoom     = `UPDATE room SET total = ?, halted = ? WHERE n = ?`
	sqlAcknowledgeOp = `UPDATE operation SET acknowledged = 1 WHERE room = ? AND id = ?`

	sqlEffect       = `SELECT seq, body FROM effect WHERE room = ? AND op = ? AND ord = ?`
	sqlEffectSeq    = `SELECT COALESCE(max(seq), 0) + 1 FROM effect WHERE room = ?`
	sqlInsertEffect = `INSERT INTO effect (room, op, ord, seq, body) VALUES (?, ?, ?, ?, ?)`
	sqlEffects      = `SELECT seq, body FROM effect WHERE room = ? ORDER BY seq`
	sqlOpEffects    = `SELECT seq, body FROM effect WHERE room = ? AND op = ? ORDER BY ord`

	sqlInsertBlob = `INSERT OR IGNORE INTO blob (room, digest, media, content) VALUES (?, ?, ?, ?)`
	sqlBlob       = `SELECT content FROM blob WHERE room = ? AND digest = ?`

	sqlOutboxBody   = `SELECT body FROM outbox WHERE room = ? AND id = ?`
	sqlInsertOutbox = `INSERT INTO outbox (room, id, rev, body, delivered) VALUES (?, ?, ?, ?, 0)`
	sqlOutbox       = `SELECT id, rev, body FROM outbox WHERE room = ? AND delivered = 0 ORDER BY n`
	sqlDelivered    = `UPDATE outbox SET delivered = 1 WHERE room = ? AND id = ? AND delivered = 0`

	sqlRemembered = `SELECT value FROM remembered WHERE room = ? AND space = ? AND key = ?`
	sqlRemember   = `INSERT INTO remembered (room, space, key, value) VALUES (?, ?, ?, ?)`

	sqlPutSnapshot = `INSERT INTO snapshot (room, rev, machine, state, folds) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (room) DO UPDATE SET rev = excluded.rev, machine = excluded.machine, state = excluded.state, folds = excluded.folds`
	sqlSnapshot = `SELECT rev, machine, state, folds FROM snapshot WHERE room = ?`
)
