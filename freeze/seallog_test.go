package freeze

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// listLog is a log in memory.
type listLog struct {
	mu   sync.Mutex
	rows []Row
}

func (l *listLog) SealLog(context.Context) ([]Row, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows), nil
}

func (l *listLog) AppendSeal(_ context.Context, kind string, body []byte) (Row, error) {
	return l.append(nil, kind, body)
}

func (l *listLog) AppendSealAfter(_ context.Context, head, kind string, body []byte) (Row, error) {
	return l.append(&head, kind, body)
}

func (l *listLog) append(head *string, kind string, body []byte) (Row, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if head != nil && *head != Head(l.rows) {
		return Row{}, ErrConflict
	}
	r := chained(last(l.rows), kind, body)
	l.rows = append(l.rows, r)
	return r, nil
}

var at = Moment{At: "2026-11-30T14:00:00Z"}

func registration(campaign string) RegistrationEntry {
	record := []byte(`{"name":"` + campaign + `","plan":"sha256:1"}`)
	return RegistrationEntry{Campaign: campaign, Digest: "sha256:" + engine.Digest(record), Code: "vcs:abc", Record: record}
}

// entry is one row to be.
type entry struct {
	kind string
	body any
}

// little is a manifest of few bytes.
func little() *Manifest { return &Manifest{Schema: Schema, Name: "little"} }

// fixing is a manifest of few bytes that holds the plan of registration.
func fixing() *Manifest {
	m := little()
	m.Plan = map[string]string{"holdout": "sha256:1"}
	return m
}

// story is a whole qualification in the right order.
func story(t testing.TB) []entry {
	t.Helper()
	id, err := fixing().ID()
	ok(t, err)
	return []entry{
		{KindRegistration, registration("c_1")},
		{KindFreeze, ManifestEntry{id, at, canonical(t, fixing())}},
		{KindCampaignStart, StartEntry{"c_1", id, at}},
		{KindOpening, OpeningEntry{id, "c_1", at, "release 1", ""}},
		{KindUse, UseEntry{id, "c_1", at, "resume"}},
		{KindCampaignEnd, EndEntry{"c_1", at, "done", "sha256:9"}},
		{KindVerdict, VerdictEntry{"c_1", at, "sha256:5", "PASS", "sha256:8"}},
		{KindAttestation, AttestationEntry{"c_1", at, "sha256:7", "key"}},
	}
}

func verified(id string, batch, batches int) entry {
	return entry{KindVerified, VerifiedEntry{id, "c_1", at, batch, batches}}
}

func logOf(t testing.TB, entries []entry) []Row {
	t.Helper()
	l := new(listLog)
	for _, e := range entries {
		_, err := Append(t.Context(), l, e.kind, e.body)
		ok(t, err)
	}
	return l.rows
}

func exported(t testing.TB, rows []Row) []byte {
	t.Helper()
	var b bytes.Buffer
	ok(t, Export(&b, rows))
	return b.Bytes()
}

// sound wants a log without faults.
func sound(t testing.TB, rows []Row) {
	t.Helper()
	if v := VerifyLog(rows); len(v.Faults) > 0 {
		t.Fatalf("faults %v", v.Faults)
	}
}

func TestQ4_AWholeStoryVerifies(t *testing.T) {
	t.Parallel()
	rows := logOf(t, story(t))
	v := VerifyLog(rows)
	if len(v.Freezes) != 1 || v.Freezes[0].N != 2 || v.Freezes[0].Manifest.Name != "little" {
		t.Errorf("freezes %+v", v.Freezes)
	}
	v.Freezes = nil
	want := Verification{Rows: 8, Head: rows[7].Digest, Openings: 1}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	back, err := ParseRows(exported(t, rows))
	ok(t, err)
	if diff := cmp.Diff(rows, back); diff != "" {
		t.Errorf("exported and read (-want +got):\n%s", diff)
	}
	sound(t, nil)
}

// TestQ4_RowsAreThoseOfTheStore: the digests are those that stores compute.
func TestQ4_RowsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		row := store.SealRow{
			N: rapid.Int64().Draw(r, "n"), Kind: rapid.String().Draw(r, "kind"),
			Body: rapid.SliceOf(rapid.Byte()).Draw(r, "body"), Prev: rapid.String().Draw(r, "prev"),
		}
		if got, want := RowDigest(Row(row)), store.SealDigest(row); got != want {
			r.Fatalf("%+v: %s, the store has %s", row, got, want)
		}
	})
	s := memory.New(memory.Options{})
	for _, e := range story(t) {
		body, err := engine.Canonical(e.body)
		ok(t, err)
		_, err = s.AppendSeal(t.Context(), e.kind, body)
		ok(t, err)
	}
	stored, err := s.SealLog(t.Context())
	ok(t, err)
	var rows []Row
	for _, r := range stored {
		rows = append(rows, Row(r))
	}
	if diff := cmp.Diff(logOf(t, story(t)), rows); diff != "" {
		t.Errorf("(-list +store):\n%s", diff)
	}
	ok(t, s.Close())
}

// TestQ4_EveryBitOfALogIsGuarded flips each bit of an exported log, and of its
// checkpoint; each flip is found, without any key.
func TestQ4_EveryBitOfALogIsGuarded(t *testing.T) {
	t.Parallel()
	signer, _ := key(t, "release")
	short := story(t)[:4]
	note, err := Sign(logOf(t, short), signer)
	ok(t, err)
	rows := logOf(t, append(short, entry{KindCheckpoint, CheckpointEntry{string(note)}}))
	sound(t, rows)
	data := exported(t, rows)
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			got, err := ParseRows(flipped)
			if err == nil && len(checkChain(got)) == 0 {
				t.Fatalf("byte %d bit %d: nothing is found: %q", i, bit, flipped[max(0, i-20):min(len(data), i+20)])
			}
			if err != nil && !errors.Is(err, ErrLog) {
				t.Fatalf("byte %d bit %d: %v is not ErrLog", i, bit, err)
			}
		}
	}
}

// TestQ4_EveryRearrangementIsFound leaves out, doubles, swaps and reorders rows.
func TestQ4_EveryRearrangementIsFound(t *testing.T) {
	t.Parallel()
	rows := logOf(t, story(t))
	found := func(what string, got []Row) {
		t.Helper()
		if v := VerifyLog(got); len(v.Faults) == 0 {
			t.Errorf("%s: nothing is found", what)
		}
	}
	for i := range rows {
		if i < len(rows)-1 {
			found(fmt.Sprint("without row ", i+1), slices.Delete(slices.Clone(rows), i, i+1))
		}
		found(fmt.Sprint("row doubled ", i+1), slices.Insert(slices.Clone(rows), i, rows[i]))
		for j := range i {
			got := slices.Clone(rows)
			got[i], got[j] = got[j], got[i]
			found(fmt.Sprint("rows swapped ", j+1, i+1), got)
			got[i].N, got[j].N = got[j].N, got[i].N
			found(fmt.Sprint("rows swapped and numbered anew ", j+1, i+1), got)
		}
		edited := slices.Clone(rows)
		edited[i].Body = []byte(`{"x":1}`)
		edited[i].Digest = RowDigest(edited[i])
		if i < len(rows)-1 { // the last is the head, which only an outside copy knows
			if faults := checkChain(edited); len(faults) != 1 || faults[0].N != int64(i)+2 {
				t.Errorf("row %d edited, with a new digest: %v, want one fault in the row behind", i+1, faults)
			}
		}
	}
}

// TestQ4_ThePlanComesBeforeWhatItPlans: entries in the wrong order, or that
// refer to what is not there, are faults although the chain is whole.
func TestQ4_ThePlanComesBeforeWhatItPlans(t *testing.T) {
	t.Parallel()
	id, err := fixing().ID()
	ok(t, err)
	s := story(t)
	without := func(drop ...int) []entry {
		var out []entry
		for i, e := range s {
			if !slices.Contains(drop, i) {
				out = append(out, e)
			}
		}
		return out
	}
	other := little()
	other.Name = "other"
	planned := func(frozen, registered string) []entry {
		m := fixing()
		m.Plan["holdout"] = frozen
		if frozen == "" {
			m.Plan = nil
		}
		fixed, err := m.ID()
		ok(t, err)
		record := []byte(`{"plan":"` + registered + `"}`)
		return []entry{
			{KindFreeze, ManifestEntry{fixed, at, canonical(t, m)}},
			{KindRegistration, RegistrationEntry{Campaign: "c_1", Digest: "sha256:" + engine.Digest(record), Code: "vcs:abc", Record: record}},
			{KindCampaignStart, StartEntry{"c_1", fixed, at}},
			{KindOpening, OpeningEntry{fixed, "c_1", at, "release 1", ""}},
		}
	}
	// second is the story, and another campaign that starts under a freeze and opens.
	second := func(under string, o OpeningEntry) []entry {
		return append(without(), entry{KindRegistration, registration("c_2")}, entry{KindCampaignStart, StartEntry{"c_2", under, at}}, entry{KindOpening, o})
	}
	for _, tc := range []struct {
		name    string
		entries []entry
		want    string // in the first fault; "" for none
	}{
		{"no registration", without(0), "row 2: campaign_start: campaign c_1 is not registered before it"},
		{"no freeze", without(1), "row 2: campaign_start: freeze " + id + " is not sealed before it"},
		{"no start", without(2, 3, 4), "campaign c_1 ends and never started"},
		{"use without opening", without(3), "uses a holdout that it did not open"},
		{"no end", without(5), "a verdict on campaign c_1 before it ended"},
		{"no verdict", without(6), "an attestation of campaign c_1 without a verdict"},
		{"registered after its start", append(without(0), s[0]), "is not registered before it"},
		{"registered twice", append(without(), s[0]), "is registered already"},
		{"frozen twice", append(without(), s[1]), "is sealed already"},
		{"opened twice", append(without(), s[3]), "opens the holdout under freeze " + id + " twice"},
		{"another campaign opens", second(id, OpeningEntry{id, "c_2", at, "r", ""}), "gives no reason"},
		{"another campaign opens with a reason", second(id, OpeningEntry{id, "c_2", at, "r", "the grader was wrong"}), ""},
		{"opened before the start", []entry{s[0], s[1], s[3], s[2]}, "row 3: opening: campaign c_1 opens a holdout under freeze " + id + ", and did not start under it"},
		{"started before the freeze", []entry{s[0], {KindCampaignStart, StartEntry{"c_1", "", at}}, s[1], s[3]}, "row 4: opening: campaign c_1 opens a holdout under freeze " + id + ", and did not start under it"},
		{"opened again, started under no freeze", second("", OpeningEntry{id, "c_2", at, "r", "the grader was wrong"}), "did not start under it"},
		{"opened after the verdict", []entry{s[0], s[1], s[2], s[5], s[6], s[3]}, "row 6: opening: campaign c_1 opens a holdout after its verdict"},
		{"a start without freeze", append(without(), entry{KindRegistration, registration("c_2")}, entry{KindCampaignStart, StartEntry{"c_2", "", at}}), ""},
		{"a registration of another record", append(without(), entry{KindRegistration, RegistrationEntry{Campaign: "c_2", Digest: "sha256:0", Code: "x", Record: []byte("{}")}}), "the record's digest is"},
		{"a freeze of another manifest", append(without(), entry{KindFreeze, ManifestEntry{id, at, canonical(t, other)}}), "names freeze " + id},
		{"no manifest", append(without(), entry{KindFreeze, ManifestEntry{id, at, []byte("{}")}}), "not a freeze manifest"},
		{"verified without opening", []entry{s[0], s[1], s[2], {KindVerified, VerifiedEntry{id, "c_1", at, 0, 1}}}, "uses a holdout that it did not open"},
		{"void without opening", []entry{s[0], s[1], s[2], {KindVoid, VoidEntry{id, "c_1", at, 0, []string{}, []Difference{}}}}, "uses a holdout that it did not open"},
		{"verified and void", append(without(), entry{KindVerified, VerifiedEntry{id, "c_1", at, 0, 1}}, entry{KindVoid, VoidEntry{id, "c_1", at, 0, []string{"k"}, []Difference{{"file", "a", "1", "2", ""}}}}), ""},
		{"a pass with void results", slices.Insert(without(), 5, entry{KindVoid, VoidEntry{id, "c_1", at, 0, []string{"k"}, []Difference{}}}), "passes with void results"},
		{"a plan that the freeze holds", planned("sha256:1", "sha256:1"), ""},
		{"a plan made after the freeze", planned("sha256:1", "sha256:2"), "does not hold its plan"},
		{"no plan under a freeze that holds one", planned("sha256:1", ""), "does not hold its plan"},
		{"a freeze that holds no plan", planned("", "sha256:1"), "does not hold its plan"},
		{"an unknown kind", append(without(), entry{"gossip", struct{}{}}), "does not know"},
		{"a set clock", append(without(), entry{KindUse, UseEntry{id, "c_1", Moment{at.At, ClockSet}, "score"}}), ""},
		{"an unknown clock", append(without(), entry{KindUse, UseEntry{id, "c_1", Moment{at.At, "sun"}, "score"}}), `clock "sun" is none`},
		{"an unknown use", append(without(), entry{KindUse, UseEntry{id, "c_1", at, "fun"}}), `use "fun" is none`},
		{"no time", append(without(), entry{KindUse, UseEntry{id, "c_1", Moment{At: at.At + "x"}, "score"}}), `"2026-11-30T14:00:00Zx" is no UTC time`},
		{"a time of another zone", []entry{s[0], s[1], {KindCampaignStart, StartEntry{"c_1", id, Moment{At: "2026-11-30T14:00:00+01:00"}}}}, "is no UTC time"},
		{"a freeze at no time", []entry{{KindFreeze, ManifestEntry{id, Moment{}, canonical(t, fixing())}}}, `"" is no UTC time`},
		{"an opening at no time", []entry{s[0], s[1], s[2], {KindOpening, OpeningEntry{id, "c_1", Moment{}, "r", ""}}}, "is no UTC time"},
		{"opened again, and never before", []entry{s[0], s[1], s[2], {KindOpening, OpeningEntry{id, "c_1", at, "r", "once more"}}}, "again that nobody had opened"},
		{"started twice", append(without(), s[2]), "starts a second time"},
		{"an unknown end", append(without(), entry{KindCampaignEnd, EndEntry{"c_1", at, "well", ""}}), `ends as "well"`},
		{"void, and nothing is", append(without(), entry{KindCampaignEnd, EndEntry{"c_1", at, StatusVoid, ""}}), "none of its results are"},
		{"stopped, then done", slices.Insert(without(), 5, entry{KindCampaignEnd, EndEntry{"c_1", at, StatusStopped, "sha256:1"}}), ""},
		{"an unknown verdict", append(without(), entry{KindVerdict, VerdictEntry{"c_1", at, "sha256:5", "GOOD", "sha256:8"}}), `verdict "GOOD" on campaign c_1 is none`},
		{"every batch verified", append(without(), verified(id, 0, 2), verified(id, 0, 2), verified(id, 1, 2), verified(id, 2, 2)), ""},
		{"the first batch not verified", append(without(), verified(id, 1, 2)), "was not before the one ahead of it"},
		{"a batch left out", append(without(), verified(id, 0, 2), verified(id, 2, 2)), "was not before the one ahead of it"},
		{"batches backwards", append(without(), verified(id, 0, 2), verified(id, 1, 2), verified(id, 0, 2)), "behind batch 1"},
		{"more batches than there are", append(without(), verified(id, 0, 0), verified(id, 1, 0)), "before batch 1 of 0"},
		{"another number of batches", append(without(), verified(id, 0, 2), verified(id, 1, 3)), "has 3 batches, and 2 in an earlier row"},
		{"an unknown field", append(without(), entry{KindUse, map[string]string{"freeze": id, "campaign": "c_1", "at": at.At, "use": "score", "more": "x"}}), "unknown field"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := VerifyLog(logOf(t, tc.entries))
			switch {
			case tc.want == "" && len(v.Faults) > 0:
				t.Errorf("faults %v, want none", v.Faults)
			case tc.want != "" && (len(v.Faults) == 0 || !strings.Contains(v.Faults[0].String(), tc.want)):
				t.Errorf("faults %v, want %q", v.Faults, tc.want)
			}
		})
	}
}

func TestQ4_CopiesAreCompared(t *testing.T) {
	t.Parallel()
	s := story(t)
	whole := logOf(t, s)
	fork := logOf(t, append(slices.Clone(s[:5]), entry{KindRegistration, registration("c_9")}))
	for _, tc := range []struct {
		name string
		a, b []Row
		want Comparison
	}{
		{"equal", whole, logOf(t, s), Comparison{Common: 8}},
		{"cut off", whole, whole[:6], Comparison{Common: 6, A: 2}},
		{"behind", whole[:1], whole, Comparison{Common: 1, B: 7}},
		{"empty", nil, whole, Comparison{B: 8}},
		{"forked", whole, fork, Comparison{Common: 5, A: 3, B: 1, Forked: true}},
		{"strangers", whole, logOf(t, []entry{{KindRegistration, registration("z")}}), Comparison{A: 8, B: 1, Forked: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Compare(tc.a, tc.b)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for i := range whole { // an edit anywhere is a fork, whatever the field
		for _, edit := range []func(*Row){
			func(r *Row) { r.N++ }, func(r *Row) { r.Kind += "x" }, func(r *Row) { r.Prev += "x" },
			func(r *Row) { r.Digest += "x" }, func(r *Row) { r.Body = append(bytes.Clone(r.Body), ' ') },
		} {
			other := slices.Clone(whole)
			edit(&other[i])
			if c := Compare(whole, other); !c.Forked || c.Common != i {
				t.Errorf("row %d edited: %+v", i+1, c)
			}
		}
	}
}

func TestQ4_AFreezeIsSealedOnce(t *testing.T) {
	t.Parallel()
	l := new(listLog)
	first, added, err := Seal(t.Context(), l, small(), at)
	ok(t, err)
	again, twice, err := Seal(t.Context(), l, small(), Moment{At: "2027-01-01T00:00:00Z"})
	ok(t, err)
	if !added || twice || len(l.rows) != 1 {
		t.Errorf("added %t, then %t; %d rows", added, twice, len(l.rows))
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	sound(t, l.rows)
	broken := small()
	broken.Trees[0].H1 = "h1:x"
	if _, _, err := Seal(t.Context(), l, broken, at); !errors.Is(err, ErrManifest) || len(l.rows) != 1 {
		t.Errorf("a manifest that cannot be read again: %v; %d rows", err, len(l.rows))
	}
	l.rows[0].Body = bytes.Replace(l.rows[0].Body, []byte(`"small"`), []byte(`"smell"`), 1)
	if _, err := Freezes(l.rows); !errors.Is(err, ErrLog) {
		t.Errorf("an edited manifest: %v", err)
	}
}

func TestQ4_LinesAreStrict(t *testing.T) {
	t.Parallel()
	text := string(exported(t, logOf(t, story(t)[:1])))
	for _, bad := range []string{
		"\n", " " + text, strings.TrimSuffix(text, "\n"), text[:len(text)/2], text + "\n", strings.TrimSuffix(text, "\n") + "\r\n",
		strings.Replace(text, `"n":1`, `"n":1.0`, 1), strings.Replace(text, `"n":1`, `"m":2,"n":1`, 1), strings.Replace(text, `"n":1`, `"n":1,"n":1`, 1),
		strings.Replace(text, `"c_1"`, `"c\u005f1"`, 1), text + "null\n",
	} {
		if rows, err := ParseRows([]byte(bad)); !errors.Is(err, ErrLog) {
			t.Errorf("%q: %v, %v", bad, rows, err)
		}
	}
	for _, body := range []string{"", "x", "{ }", `{"b":1,"a":2}`} {
		r := chained(Row{}, KindUse, []byte(body))
		if err := Export(new(bytes.Buffer), []Row{r}); !errors.Is(err, ErrLog) {
			t.Errorf("body %q: %v", body, err)
		}
		if v := VerifyLog([]Row{r}); len(v.Faults) == 0 {
			t.Errorf("body %q: no fault", body)
		}
	}
}

// FuzzParseRows: whatever is read is written back to the same bytes.
func FuzzParseRows(f *testing.F) {
	f.Add(exported(f, logOf(f, story(f))))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"body":null,"digest":"","kind":"","n":0,"prev":""}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := ParseRows(data)
		if err != nil {
			return
		}
		VerifyLog(rows)
		if got := exported(t, rows); !bytes.Equal(got, data) {
			t.Errorf("%q became %q", data, got)
		}
	})
}

// FuzzParse: whatever is a manifest is written back to the same bytes.
func FuzzParse(f *testing.F) {
	f.Add(canonical(f, small()))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if got := canonical(t, m); !bytes.Equal(got, bytes.TrimSuffix(data, []byte("\n"))) || !json.Valid(got) {
			t.Errorf("%q became %q", data, got)
		}
	})
}
