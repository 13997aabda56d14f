// Package campaigns runs one corpus through several arms: campaign files and
// their resolved plans, digests and identity, the seeded schedule of triples,
// allotments on a ceiling, trials through engine/runtime, trace export at trial
// close, and resume by the same command.
//
// It never sees gold: scoring is the evaluator's, and the oracle of the
// simulated model is wired in cmd behind the Providers port.
package campaigns
