package session_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
)

func TestParseTurn(t *testing.T) {
	t.Parallel()
	art := &engine.ArtifactText{Name: "n", Text: "t"}
	for text, want := range map[string]engine.TurnReply{
		`{"status":"done","text":"ok"}`:                                      {Status: "done", Text: "ok"},
		`{"text":"no","status":"blocked","mood":7}`:                          {Status: "blocked", Text: "no"},
		"```json\n{\"status\":\"answer\",\"text\":\"a\"}\n```":               {Status: "answer", Text: "a"},
		"```\n{\"status\":\"question\",\"text\":\"a\"}\n```\n":               {Status: "question", Text: "a"},
		`{"status":"blocked"}`:                                               {Status: "blocked"},
		`{"status":"done","text":null,"artifact":null}`:                      {Status: "done"},
		`{"status":"done","text":"","artifact":{"name":"n","text":"t"}}`:     {Status: "done", Artifact: art},
		`{"status":"done","artifact":{"text":"t","name":"n","x":1},"x":"y"}`: {Status: "done", Artifact: art},
	} {
		got, problem := session.ParseTurn(" \n" + text + "\t\n")
		if problem != "" {
			t.Errorf("%s: %s", text, problem)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
	for _, text := range []string{
		"", " ", "done", "null", "[]", `"done"`, "{", `{"status":"done"} and more`, `Here: {"status":"done"}`,
		`{"status":"done"}{"status":"done"}`, `{"status":"done","status":"blocked"}`, `{}`, `{"Status":"done"}`,
		`{"status":"finished"}`, `{"status":7}`, `{"status":"done","text":7}`, `{"status":"question"}`, `{"status":"answer","text":""}`,
		`{"status":"done","artifact":"x"}`, `{"status":"done","artifact":{}}`, `{"status":"done","artifact":{"name":"","text":"t"}}`,
		`{"status":"done","artifact":{"name":7}}`, `{"status":"done","artifact":{"name":"n","text":[]}}`,
		`{"status":"done","artifact":{"name":"` + strings.Repeat("n", 129) + `"}}`,
		"```yaml\n{\"status\":\"done\"}\n```", "```json\n{\"status\":\"done\"}", "```{\"status\":\"done\"}```",
	} {
		if got, problem := session.ParseTurn(text); problem == "" {
			t.Errorf("%s is read as %+v", text, got)
		} else if diff := cmp.Diff(engine.TurnReply{}, got); diff != "" {
			t.Errorf("%s: an unreadable reply has content:\n%s", text, diff)
		}
	}
}

func FuzzParseTurn(f *testing.F) {
	for _, s := range []string{`{"status":"done","text":"x","artifact":{"name":"n","text":"t"}}`, "```json\n{}\n```", `{"status":"done","status":""}`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, problem := session.ParseTurn(text)
		known := got.Status == engine.StatusDone || got.Status == engine.StatusBlocked || got.Status == engine.StatusQuestion || got.Status == engine.StatusAnswer
		if (problem == "") != known {
			t.Fatalf("%q: %+v, problem %q", text, got, problem)
		}
		if !utf8.ValidString(got.Text) {
			t.Fatalf("%q: invalid text %q", text, got.Text)
		}
	})
}

func TestSessionFeedbackIsBounded(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.s.Say("ana", sealed("please"))
	d.step()
	c, _ := d.reply(`{"status":"` + strings.Repeat("é\n", 5000) + `"}`)
	last := c.Request.Messages[len(c.Request.Messages)-1]
	if last.From != session.Room || len(last.Text.S) > 700 || !utf8.ValidString(last.Text.S) {
		t.Fatalf("feedback of %d bytes from %q", len(last.Text.S), last.From)
	}
	d.reply("", tool(strings.Repeat("t", 5000), `{}`))
	if n := len(d.last.Request.Messages[len(d.last.Request.Messages)-1].Text.S); n > 400 {
		t.Fatalf("an answer of %d bytes", n)
	}
}
