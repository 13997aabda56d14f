-- The calls of rooms as runs of single-task processes: what operations, receipts
-- and the leases of rooms say, in the words of a workflow's ledger. Nothing is
-- stored twice; the operation stays the only record of a call.

CREATE VIEW call_run AS
SELECT
  room.id                  AS room,
  operation.id             AS idempotency_key,
  operation.request_digest AS input_digest,
  operation.kind           AS kind,
  operation.agent          AS agent,
  operation.role           AS role,
  operation.task           AS task,
  operation.attempt        AS attempt,
  CASE operation.status
    WHEN 'reserved'       THEN 'claimed'
    WHEN 'dispatched'     THEN 'running'
    WHEN 'settled_ok'     THEN 'completed'
    WHEN 'settled_failed' THEN 'failed'
    WHEN 'uncertain'      THEN 'indeterminate'
    ELSE 'canceled'
  END                      AS status,
  CASE WHEN operation.status IN ('reserved', 'dispatched') THEN coalesce(lease.owner, '') ELSE '' END     AS lease_owner,
  CASE WHEN operation.status IN ('reserved', 'dispatched') THEN coalesce(lease.generation, 0) ELSE 0 END  AS lease_generation,
  CASE WHEN operation.status IN ('reserved', 'dispatched') THEN coalesce(lease.expires_us, 0) ELSE 0 END  AS lease_expires_us,
  CASE WHEN operation.outcome IS NULL THEN 0 ELSE operation.finish_us - operation.start_us END             AS duration_us,
  'USD'                    AS cost_currency,
  operation.charged        AS cost_micros,
  operation.usage          AS usage
FROM operation
JOIN room ON room.n = operation.room
LEFT JOIN lease ON lease.name = 'room/' || room.id AND lease.token <> '';
