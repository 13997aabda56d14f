package routing_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/routing"
)

func TestC7_ReferencesInAText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                               nil,
		"@":                              nil,
		"@ bob":                          nil,
		"@bob":                           {"bob"},
		"hi @bob, and\t@eve\n@joe!":      {"bob", "eve", "joe"},
		"mail a@b.c and (@bob)":          nil, // only after white space or at the start
		"@bob. Then @eve...":             {"bob", "eve"},
		"@a.b_c-d.e":                     {"a.b_c-d.e"},
		"@_bob @-bob @.bob":              nil,
		"@7up @élan @Жук @漢字":            {"7up", "élan", "Жук", "漢字"},
		"@bob @eve @BOB @bob.":           {"bob", "eve"},
		"@@bob":                          nil,
		"@bob@eve":                       {"bob"},
		"@bob's":                         {"bob"},
		"no-break\u00a0@bob":             {"bob"},
		"bad \xff@bob and \xff @eve\xff": {"eve"},
	} {
		if diff := cmp.Diff(want, routing.References(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestC7_ReferencesAreSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"@", "bob", "Bob", ".", " ", "-", "é", "\n", "x@", "ſ", "\xff"})).Draw(rt, "parts"), "")
		refs := routing.References(text)
		for i, r := range refs {
			if !routing.IsReference(r) {
				rt.Fatalf("%q: %q is no reference", text, r)
			}
			at := strings.Index(text, "@"+r)
			if at < 0 {
				rt.Fatalf("%q: %q does not stand in the text", text, r)
			}
			if slices.ContainsFunc(refs[:i], func(o string) bool { return strings.EqualFold(o, r) }) {
				rt.Fatalf("%q: %q twice", text, r)
			}
		}
		// Putting the text into a sentence of its own changes nothing.
		if diff := cmp.Diff(refs, routing.References("see: "+text)); diff != "" {
			rt.Fatalf("%q: %s", text, diff)
		}
	})
}

func FuzzReferences(f *testing.F) {
	f.Add("@bob. and @eve")
	f.Add("\xff@\u2028@ſ..")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range routing.References(text) {
			first := []rune(r)[0]
			if !routing.IsReference(r) || !unicode.IsLetter(first) && !unicode.IsDigit(first) {
				t.Fatalf("%q gives %q", text, r)
			}
		}
	})
}

func table(t *testing.T) *routing.Table {
	t.Helper()
	tb, err := routing.NewTable([]routing.Entry{
		{ID: "p1", Name: "Book Keeper", Aliases: []string{" keeper "}},
		{ID: "p2", Name: "Straße", Aliases: []string{"KELVIN", "p2"}},
		{ID: "p3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func TestC6_AliasesAreTrimmedAndCaseFolded(t *testing.T) {
	t.Parallel()
	tb := table(t)
	if id, ok := tb.Find("\tBook Keeper "); id != "p1" || !ok {
		t.Errorf("an alias is not trimmed: %q, %v", id, ok)
	}
	for alias, want := range map[string]string{
		"p1": "p1", "P1": "p1", "Keeper": "p1", "book keeper": "p1", "straße": "p2", "STRAßE": "p2",
		"\u212aelvin": "p2", // KELVIN SIGN folds to k
		"nobody":      "", "": "",
	} {
		got, ok := tb.Find(alias)
		if got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", alias, got, ok)
		}
	}
}

func TestC6_SharedAliasIsAConflict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []routing.Entry
		code    string
	}{
		"alias twice":           {[]routing.Entry{{ID: "a", Aliases: []string{"x"}}, {ID: "b", Aliases: []string{" X"}}}, engine.CodeConflict},
		"id is another's alias": {[]routing.Entry{{ID: "a"}, {ID: "b", Aliases: []string{"A"}}}, engine.CodeConflict},
		"name is another's id":  {[]routing.Entry{{ID: "a", Name: "B"}, {ID: "b"}}, engine.CodeConflict},
		"id twice":              {[]routing.Entry{{ID: "a"}, {ID: "a"}}, engine.CodeConflict},
		"no id":                 {[]routing.Entry{{ID: " ", Aliases: []string{"x"}}}, engine.CodeValidation},
		"own alias twice":       {[]routing.Entry{{ID: "a", Name: "A", Aliases: []string{"a", "", "b", "B"}}}, ""},
	} {
		if _, err := routing.NewTable(c.entries); engine.CodeOf(err) != c.code || (err != nil) != (c.code != "") {
			t.Errorf("%s: error %v, want code %q", name, err, c.code)
		}
	}
}

func TestC6_D10_EveryParticipantNeedsAnAliasThatCanFollowAnAt(t *testing.T) {
	t.Parallel()
	if _, err := routing.NewTable([]routing.Entry{{ID: "the keeper", Name: "Book Keeper"}}); engine.CodeOf(err) != engine.CodeValidation {
		t.Errorf("names with spaces only: %v", err)
	}
	if _, err := routing.NewTable([]routing.Entry{{ID: "the keeper", Aliases: []string{"keeper"}}}); err != nil {
		t.Errorf("one usable alias: %v", err)
	}
}

func TestC7_ExplicitReferencesInMessageOrderUnknownSkipped(t *testing.T) {
	t.Parallel()
	tb := table(t)
	got := tb.Explicit("@p2 @nobody @Keeper. @p1 @p3", []string{"p1", "p2"})
	if diff := cmp.Diff([]string{"p2", "p1"}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestC7_OrderOfDecision(t *testing.T) {
	t.Parallel()
	both := []string{"a", "b"}
	asked := func(id string) routing.Answer { return routing.Answer{Asked: true, Participant: id} }
	for name, c := range map[string]struct {
		in   routing.Input
		want routing.Selection
		code string
	}{
		"explicit first": {
			routing.Input{Explicit: both, Candidates: both, Router: asked("b"), Default: "b"},
			routing.Selection{Basis: routing.BasisExplicit, Participants: both},
			"",
		},
		"explicit without candidates": {
			routing.Input{Explicit: []string{"r"}},
			routing.Selection{Basis: routing.BasisExplicit, Participants: []string{"r"}},
			"",
		},
		"no candidates before the router": {
			routing.Input{Router: asked("b"), Default: "b"},
			routing.Selection{Basis: routing.BasisUnassigned, Participants: []string{}, Reason: routing.ReasonNoEligible},
			"",
		},
		"router is asked": {
			routing.Input{Candidates: both, Default: "a"}, routing.Selection{AskRouter: true}, "",
		},
		"router chooses": {
			routing.Input{Candidates: both, Router: asked("b"), Default: "a"},
			routing.Selection{Basis: routing.BasisRouter, Participants: []string{"b"}},
			"",
		},
		"router names a stranger": {
			routing.Input{Candidates: both, Router: asked("c"), Default: "a"}, routing.Selection{}, engine.CodeValidation,
		},
		"default": {
			routing.Input{Candidates: both, Router: asked(""), Default: "a"},
			routing.Selection{Basis: routing.BasisDefault, Participants: []string{"a"}},
			"",
		},
		"default is not eligible": {
			routing.Input{Candidates: both, Router: asked(""), Default: "c"}, routing.Selection{}, engine.CodeValidation,
		},
		"no match": {
			routing.Input{Candidates: both, Router: asked("")},
			routing.Selection{Basis: routing.BasisUnassigned, Participants: []string{}, Reason: routing.ReasonNoMatch},
			"",
		},
	} {
		got, err := routing.Resolve(c.in)
		if engine.CodeOf(err) != c.code || (err != nil) != (c.code != "") {
			t.Errorf("%s: error %v, want code %q", name, err, c.code)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestC6_EntriesOfARoom(t *testing.T) {
	t.Parallel()
	got := routing.Entries([]engine.Participant{{ID: "a", Agent: "x", Aliases: []string{"b"}}})
	if diff := cmp.Diff([]routing.Entry{{ID: "a", Aliases: []string{"b"}}}, got); diff != "" {
		t.Fatal(diff)
	}
}
