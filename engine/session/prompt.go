package session

import (
	_ "embed" // the prompt files
	"fmt"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Room is the speaker of messages that no person and no agent wrote: repair
// feedback.
const Room = "room"

// FromOwner is how an owner's messages name their speaker in a conversation.
func FromOwner(id string) string { return id + " (owner)" }

var (
	//go:embed prompts/turn.txt
	turnPrompt string
	//go:embed prompts/colleagues.txt
	colleaguesPrompt string
	//go:embed prompts/repair.txt
	repairPrompt string
)

// Prompts are the prompt files of a session by name; they are part of the
// prompts of every mode that holds one.
func Prompts() map[string]string {
	return map[string]string{
		"session/turn.txt":       turnPrompt,
		"session/colleagues.txt": colleaguesPrompt,
		"session/repair.txt":     repairPrompt,
	}
}

// SystemData fills the system prompt of a session.
type SystemData struct {
	ID          string               // participant id of the agent
	Description string               // what it is for; may be empty
	Owner       string               // participant id of the owner
	Goal        string               // of the room
	Criteria    []engine.Criterion   // in words, as every mode shows them
	Tools       []string             // names, in the order to print
	Colleagues  []engine.Participant // that @id starts; none: the rules about colleagues are left out
}

// SystemPrompt builds the system prompt of a turn/v1 session with the marker
// lines of engine/protocol.go. Text that others wrote (goal, descriptions,
// criteria) cannot produce a marker line: the goal is indented, list entries
// are one line each.
func SystemPrompt(d SystemData) string {
	var criteria, colleagues strings.Builder
	for _, c := range d.Criteria {
		fmt.Fprintf(&criteria, "\n- %s: %s", c.ID, oneLine(c.Text))
	}
	section := ""
	if len(d.Colleagues) > 0 {
		for _, p := range d.Colleagues {
			fmt.Fprintf(&colleagues, "\n- %s: %s", p.ID, oneLine(p.Description))
		}
		section = "\n" + strings.NewReplacer(
			"{colleagues}", engine.PromptColleagues+colleagues.String(),
		).Replace(strings.TrimSpace(colleaguesPrompt)) + "\n"
	}
	about := ""
	if d.Description != "" {
		about = "\nYour part: " + oneLine(d.Description)
	}
	return strings.TrimSpace(strings.NewReplacer(
		"{you}", engine.PromptYouAre+d.ID,
		"{about}", about,
		"{owner}", FromOwner(d.Owner),
		"{goal}", indent(d.Goal),
		"{criteria}", engine.PromptCriteria+criteria.String(),
		"{tools}", engine.PromptTools+strings.Join(d.Tools, ", "),
		"{colleagues_section}", section,
	).Replace(turnPrompt)) + "\n"
}

func repairText(problem string) string {
	return strings.TrimSpace(strings.NewReplacer("{problem}", bounded(problem)).Replace(repairPrompt))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func indent(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, l := range lines {
		lines[i] = "  " + strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n")
}
