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
// Files: spec and limits (what a planner is built from), envelope and verdict
// (strict readers of replies), issues, admission and identity (whole-plan
// admission), plan (versions), objective (status table of R63), inbox and
// interpret (interpretation and its repair), decide (what an accepted decision
// does), tasks, converse (explicit references), report and review, machine and
// state (the fold). Of the seed's rules this form leaves pause, resume, cancel
// and readmission (R43, R44) and several open objectives at once (R7) to later
// versions; controlRevision is bound and checked but nothing moves it yet.
//
// A Machine is deterministic and does no I/O. Every refusal of a proposal is a
// recorded outcome (CmdNote), never an error (R70).
//
// Stability: this package is part of the stable API.
package planner
