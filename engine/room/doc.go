// Package room holds what Rooms owns and a mode only asks for (R2): tasks with
// one transition table, artifacts with gapless versions, and the authority of
// the owner. All values are plain data that a machine keeps in its state and
// writes into its snapshot; maps among them serialise with sorted keys.
//
//	created ─▶ running ─▶ completed     only with a receipt of accepted work
//	   │          ├─────▶ failed
//	   └──────────┴─────▶ cancelled
//
// Stability: internal to the modes; may change.
package room
