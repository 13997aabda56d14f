// Package planner is the Room planner of seed 000 as a pure machine: owner
// events are interpreted by a reasoner whose replies are proposals only (R3),
// an admitted proposal becomes an objective with a versioned plan (R7, R25,
// R32), its steps run as specialist sessions (R33), and completion needs a
// valid all-met verdict on the newest report by a reviewer who wrote none of
// it (R50-R52).
//
//	owner event ─▶ inbox ─▶ interpret op ─▶ envelope ─▶ decision
//	                 ▲                                     │ admitted plan
//	   replan needed │                                     ▼
//	(task failed, unmet verdict) ◀── review op ◀── report ◀── task sessions
//
// Several objectives may be open at once on the room's one budget (R7); a halt
// of one holds up no other. The owner pauses, resumes and cancels them, readmits
// what finished after such a change, raises the budget and has operations
// reconciled by commands with idempotency keys (command, R69). Each control
// command raises the objective's control revision; a result bound to an older
// one is charged and held, without effect, until it is readmitted (held, R44).
//
// The coordinator is visible: plan versions, decisions and explanations are
// posts in the room (engine.CmdPost) that nothing ever reads back (R68).
//
// Files: spec and limits (what a planner is built from), envelope and verdict
// (strict readers of replies), issues, admission and identity (whole-plan
// admission), plan (versions), objective (status table of R63), inbox and
// interpret (interpretation and its repair), decide (what an accepted decision
// does), tasks, converse (explicit references), report and review, command and
// held (control), view (what a host shows), machine and state (the fold).
//
// A Machine is deterministic and does no I/O. Every refusal of a proposal is a
// recorded outcome (CmdNote), never an error (R70).
//
// Stability: this package is part of the stable API.
package planner
