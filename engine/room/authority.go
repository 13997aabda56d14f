package room

import "github.com/agentrooms/qualify/engine"

// Authority says whose word counts as the owner's.
type Authority struct {
	Owner string `json:"owner"` // participant id
}

// IsOwner reports whether a resolved author is the owner.
func (a Authority) IsOwner(from string) bool { return a.Owner != "" && from == a.Owner }

// IsCorrection reports whether m is an owner correction: of a correcting type
// (qualification Q1) and by the owner as resolved. Words of the owner quoted by
// somebody else never are (R19).
func (a Authority) IsCorrection(m engine.OwnerMessage) bool {
	if !a.IsOwner(m.From) {
		return false
	}
	switch m.Type {
	case engine.MsgCorrection, engine.MsgRedirect, engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover:
		return true
	default:
		return false
	}
}

// Reopens reports whether m makes the owner's work incomplete again, so that
// an earlier claim no longer stands: an owner correction, or a further
// request. A reply to a question does not.
func (a Authority) Reopens(m engine.OwnerMessage) bool {
	return a.IsCorrection(m) || a.IsOwner(m.From) && m.Type == engine.MsgRequest
}
