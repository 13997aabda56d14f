// Package gold holds what a right solution of a case looks like, and the
// checks that judge an outcome by it: the oracle of every deterministic
// figure. Only the evaluator, corpus/lint and the wiring in cmd may import it.
//
// # Files
//
// gold/<family>/<case>.yaml mirrors the case file:
//
//	schema            qualify/gold/v1
//	case              the case id
//	needs_plan        false when an ordinary answer is enough (default true)
//	criteria          {id, required, check}; the ids of the case's criteria
//	expected_effects  {tool, args, times, free}; args is a subset, times 1 by
//	                  default, free names arguments that nobody judges
//	allowed_effects   same shape: may happen, need not
//	solution          steps of one right way, see Step
//
// # Checks
//
//	all, any: [check…]; not: check
//	document: POINTER with one of equals: V | is_not: V | contains: V | is: absent|present
//	effect: {tool, args, times}      confirmed effects; without times at least one
//	no_other_effects: true           no confirmed effect beyond expected and allowed
//	                                 ones, repeats of them apart
//	message: {to, via, from, contains_all, contains_none}
//	                                 one message has it all; via "room" is the
//	                                 participants' own words
//	artifact: {name, contains_all, contains_none}   its newest version
//	judge: {rubric}                  model judgement; never in a required criterion
//
// Texts are compared without regard to case and runs of white space, numbers
// by value (25 = 25.0). A check that cannot be decided is an error, and a
// criterion that contains one is an error and never a pass, under not and any
// too.
//
// # Effects
//
// Confirmed effects that changed something are matched one by one with the
// entries of expected_effects and allowed_effects, first occurrences of an
// identity before repeats, the entry with most arguments first. What finds no
// entry is a duplicate when an effect of the same identity came before it, and
// collateral otherwise, unless an effect check of a criterion (outside not)
// allows it. How often one identity is wanted is for expected_effects to say:
// an allowed entry with times 2 takes two different effects and never a repeat.
package gold
