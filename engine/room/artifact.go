package room

import (
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// ArtifactHead is the newest version of a named artifact. Content is not
// kept: it is in the command that published it.
type ArtifactHead struct {
	Version int    `json:"version"`
	Digest  string `json:"digest"` // hex SHA-256 of the content
	By      string `json:"by"`     // participant id
	Task    string `json:"task,omitempty"`
}

// Artifacts are the artifacts of a room by name. The zero value is ready for
// reading; Put makes the map.
type Artifacts map[string]ArtifactHead

// Put makes the next version of a name, counting from 1 without gaps, and
// returns it ready for a CmdArtifact. VALIDATION_ERROR when name or author is
// empty.
func (as *Artifacts) Put(name, by, task, text string) (engine.Artifact, error) {
	if name == "" || by == "" {
		return engine.Artifact{}, engine.Errorf(engine.CodeValidation, "an artifact needs a name and an author")
	}
	if *as == nil {
		*as = Artifacts{}
	}
	head := ArtifactHead{Version: (*as)[name].Version + 1, Digest: engine.Digest([]byte(text)), By: by, Task: task}
	(*as)[name] = head
	return engine.Artifact{Name: name, Version: head.Version, By: by, Task: task, Text: engine.Plain(text)}, nil
}

// Latest returns the newest version of a name; ok is false when there is none.
func (as Artifacts) Latest(name string) (head ArtifactHead, ok bool) {
	head, ok = as[name]
	return head, ok
}

// Names lists the artifacts in ascending order.
func (as Artifacts) Names() []string { return slices.Sorted(maps.Keys(as)) }
