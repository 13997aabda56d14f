package simulated

import (
	"encoding/json"
	"testing"

	"github.com/agentrooms/qualify/engine"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	o := relay()
	o.Messages["m2"] = "Tell Bob as well."
	o.Steps = append(o.Steps, Step{ID: "s7", By: "writer", Tool: "note", Args: raw(`{"to":"bob","text":"x"}`), Since: "m2"})
	p := provider(t, o)
	for _, c := range []struct{ name, kind, text, want string }{
		{"the first step", engine.MsgRequest, "Make the books agree.", "keeper"},
		{"what a message makes known", engine.MsgRequest, "Tell Bob as well.", "writer"},
		{"a redirect that makes a step known", engine.MsgRedirect, "Tell Bob as well.", "writer"},
		{"a correction of an amount", engine.MsgCorrection, "17 still has the old amount.", "keeper"},
		{"a correction of an entry", engine.MsgCorrection, "i-19 is in the bank but not in our book.", "keeper"},
		{"a correction of the note", engine.MsgCorrection, "I have no note from you yet.", "writer"},
		{"a correction for a person", engine.MsgRedirect, "Ana has heard nothing.", "writer"},
		{"a correction of nothing in particular", engine.MsgCorrection, "No!", "keeper"},
		{"the report is not a candidate's", engine.MsgCorrection, "The report is missing.", "keeper"},
	} {
		req := engine.RouteRequest{
			Schema: engine.FormatRoute, Message: engine.PlanMessage{ID: "x", Type: c.kind, Text: c.text},
			Candidates: []engine.Participant{{ID: "writer"}, {ID: "keeper"}},
		}
		var got engine.RouteReply
		if err := json.Unmarshal([]byte(ask(t, p, engine.FormatRoute, "op", req)), &got); err != nil || got.Participant != c.want {
			t.Errorf("%s: %+v (%v), want %s", c.name, got, err, c.want)
		}
	}
	var none engine.RouteReply
	req := engine.RouteRequest{Candidates: []engine.Participant{{ID: "stranger"}}}
	if err := json.Unmarshal([]byte(ask(t, p, engine.FormatRoute, "op", req)), &none); err != nil || none.Participant != "" {
		t.Errorf("nobody responsible: %+v (%v)", none, err)
	}
}
