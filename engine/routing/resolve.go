package routing

import (
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Basis says which step of C7 decided.
type Basis string

// Bases.
const (
	BasisExplicit   Basis = "explicit_reference"
	BasisRouter     Basis = "router"
	BasisDefault    Basis = "default"
	BasisUnassigned Basis = "unassigned"
)

// Reasons of BasisUnassigned.
const (
	ReasonNoEligible = "no_eligible_participant"
	ReasonNoMatch    = "no_match"
)

// Answer is what a router said, if it was asked.
type Answer struct {
	Asked       bool   // false: the router has not been asked yet
	Participant string // "" when it chose none
}

// Input is everything the decision rests on. Nothing else enters it.
type Input struct {
	Explicit   []string // Table.Explicit of the message
	Candidates []string // for router and default: eligible participants
	Router     Answer
	Default    string // "" for none; a setting of the room (D9)
}

// Selection is the decision. With AskRouter set it is not made yet: ask the
// router, then resolve again with its answer.
type Selection struct {
	Basis        Basis    `json:"basis"`
	Participants []string `json:"participants"` // several only for explicit references
	Reason       string   `json:"reason,omitempty"`
	AskRouter    bool     `json:"-"`
}

// Resolve decides in the order of C7: explicit references, no candidates,
// router, default, unassigned. The router is asked only when the first two do
// not decide.
//
// Errors: VALIDATION_ERROR when the router named somebody who is no candidate,
// or when the default that would decide is not eligible.
func Resolve(in Input) (Selection, error) {
	if len(in.Explicit) > 0 {
		return Selection{Basis: BasisExplicit, Participants: slices.Clone(in.Explicit)}, nil
	}
	if len(in.Candidates) == 0 {
		return Selection{Basis: BasisUnassigned, Participants: []string{}, Reason: ReasonNoEligible}, nil
	}
	if !in.Router.Asked {
		return Selection{AskRouter: true}, nil
	}
	if id := in.Router.Participant; id != "" {
		if !slices.Contains(in.Candidates, id) {
			return Selection{}, engine.Errorf(engine.CodeValidation, "the router named %q, who is no candidate", id)
		}
		return Selection{Basis: BasisRouter, Participants: []string{id}}, nil
	}
	if in.Default != "" {
		if !slices.Contains(in.Candidates, in.Default) {
			return Selection{}, engine.Errorf(engine.CodeValidation, "the default participant %q is not eligible", in.Default)
		}
		return Selection{Basis: BasisDefault, Participants: []string{in.Default}}, nil
	}
	return Selection{Basis: BasisUnassigned, Participants: []string{}, Reason: ReasonNoMatch}, nil
}
