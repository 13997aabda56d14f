// Package simulated is a model provider that costs nothing and errs on
// purpose. An Oracle holds the right steps of a case; for every call the
// provider finds out from the messages alone what has been done, takes the
// next right step and spoils it at configured Rates (DESIGN §5).
//
// # What it knows
//
// The model is stateless over the messages it is sent. It reads what any model
// would read: the system prompt's marker lines, the conversation, the tools
// offered. It never sees arm, mode or kind of operation, so the same messages
// get the same answer wherever they come from; Key enters nothing but the
// draws. It does nothing that the messages do not ask for: no request, no work.
//
// # How agents tell each other what to do
//
// Simulated agents name oracle steps by marks, in whatever they write to each
// other (plan instructions, hand-overs):
//
//	[todo s2 s3]   do these now            [done s1]      these are done
//	[later s5]     these come afterwards   [report s4]    done; close with a report on it
//	[heard m2]     the owner has said this
//	[round 2]      this is the second attempt; say so in the closing text
//
// Marks count in messages of agents only. A message of the owner asks for all
// steps in force, judged by the owner messages seen or heard of (Step.Since,
// Step.Until).
//
// # What a turn believes
//
// Requests since the last end of a turn are under way. Calls made after the
// newest of them are believed: a call whose result came is its step done, right
// or wrong, and steps left out before it stay left out. When a newer request
// arrives, everything earlier is looked at again with the oracle's eyes: a step
// is done only if its exact call came back ok. So a correction repairs what was
// skipped or wrong. Calls of unknown outcome are suspected only when nothing
// else is found wrong.
//
// # Draws
//
// A draw is an integer taken from SHA-256 over (seed, case, trial, salt,
// operation, name); see Rates for the names. No floating point is involved. A
// decision that later calls must read again (retry_after_unknown) is drawn over
// the conversation up to the unknown outcome in place of the operation.
//
// Stability: internal to the harness; may change.
package simulated
