package engine

// RoomSpec is what a mode is given to build its machine: no case id, no seed,
// no gold, no arm.
type RoomSpec struct {
	Goal     string            `json:"goal"`
	Owner    string            `json:"owner"` // participant id of the owner
	Agents   []Participant     `json:"agents"`
	Criteria []Criterion       `json:"criteria"`
	Tools    []ToolSpec        `json:"tools"`    // every tool of the room
	Parallel int               `json:"parallel"` // most sessions at work at once, at least 1
	Options  map[string]string `json:"options"`  // the arm's options, as decimal or plain strings
}

// Action levels of tools.
const (
	ActionRead  = "read"
	ActionDraft = "draft"
	ActionWrite = "write"
)

// ToolSpec declares one tool.
type ToolSpec struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Action      string   `json:"action"` // read, draft, write
	Schema      []byte   `json:"schema"` // JSON Schema of the arguments, canonical
	Target      []string `json:"target,omitempty"`
	Volatile    []string `json:"volatile,omitempty"`
}
