package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
)

// opened opens the files and reads them all.
func opened(t *testing.T, f folder) (*archive.Store, error) {
	t.Helper()
	a, err := archive.Open(f)
	if err == nil {
		err = a.Check(t.Context())
	}
	return a, err
}

// unseen fails the test when the files are read without an error and are not
// what is exported again from what was read: then a byte could change unseen.
func unseen(t *testing.T, what string, f folder) error {
	t.Helper()
	a, err := opened(t, f)
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v is not ErrCorrupt", what, err)
		}
		return err
	}
	again, err := export(t, a, a.ID(), archive.Options{})
	if err != nil {
		t.Errorf("%s: opened, but not exported again: %v", what, err)
		return err
	}
	for _, name := range f.Names() {
		if !bytes.Equal(f[name], again[name]) {
			t.Errorf("%s: %s was read, and is written otherwise (-read +written):\n%s", what, name, cmp.Diff(string(f[name]), string(again[name])))
		}
	}
	return nil
}

func sceneFiles(t *testing.T) folder {
	t.Helper()
	st := both(t)["memory"]
	scene(t, st)
	return mustExport(t, st, sceneID, archive.Options{})
}

func TestQ8_EveryFileOfAnArchiveMustBeThere(t *testing.T) {
	t.Parallel()
	f := sceneFiles(t)
	for _, name := range f.Names() {
		err := unseen(t, "without "+name, f.with(name, nil))
		folder, _, _ := strings.Cut(name, "/") // a room that is missing is one too few, or leaves its bodies behind
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") && (folder != "rooms" || !strings.HasPrefix(err.Error(), strings.Replace(name, "rooms/", "bodies/", 1)+"l: ")) {
			t.Errorf("without %s: %v", name, err)
		}
		if strings.HasPrefix(name, "traces/") {
			continue
		}
		if err := unseen(t, "empty "+name, f.with(name, []byte{})); err == nil && len(f[name]) > 0 {
			t.Errorf("empty %s is taken", name)
		}
	}
	for _, name := range []string{
		"bodies/lamp/planner/1.jsonl", "rooms/lamp/planner/1.json", "rooms/lamp/planner/0.jsonl", "rooms/../x.json", "rooms/.json", "rooms/a\\b.json",
		"traces/lamp/planner/1.jsonl", "traces/lamp-3/planner/0.jsonl", "bodies/x",
	} {
		if err := unseen(t, "more: "+name, f.with(name, []byte("{}\n"))); err == nil {
			t.Errorf("%s has no place in the archive, and is taken", name)
		}
	}
	a, err := opened(t, f.with("README", []byte("by others")))
	if err != nil || a.ID() != sceneID {
		t.Errorf("a file beside the archive: %v", err)
	}
}

func TestQ8_NoByteOfAnArchiveChangesUnseen(t *testing.T) {
	t.Parallel()
	f := sceneFiles(t)
	step := 61 // every byte under QUALIFY_LONG
	if os.Getenv("QUALIFY_LONG") != "" {
		step = 1
	}
	found, other := 0, 0
	for _, name := range f.Names() {
		if strings.HasPrefix(name, "traces/") {
			continue // bytes, for others to judge
		}
		b := f[name]
		for i := 0; i < len(b); i += step {
			c := bytes.Clone(b)
			c[i] ^= 1 << (i % 8)
			if unseen(t, fmt.Sprint(name, ", byte ", i), f.with(name, c)) != nil {
				found++
			} else {
				other++
			}
			if unseen(t, fmt.Sprint(name, ", cut at ", i), f.with(name, b[:i])) == nil {
				t.Errorf("%s, cut off at byte %d of %d, is taken", name, i, len(b))
			}
			if unseen(t, fmt.Sprint(name, ", without byte ", i), f.with(name, append(bytes.Clone(b[:i]), b[i+1:]...))) != nil {
				found++
			}
		}
		for _, more := range []string{"\n", " ", "{}\n", string(b)} {
			if unseen(t, name+" with more", f.with(name, append(bytes.Clone(b), more...))) == nil && len(b)+len(more) > 0 && more != "" && len(b) > 0 {
				t.Errorf("%s with %q behind it is taken", name, more)
			}
		}
	}
	t.Logf("%d changes are found, %d are another record", found, other)
	if found == 0 || other == 0 {
		t.Error("one kind of change was not tried")
	}
}

func TestQ8_HostileArchives(t *testing.T) {
	t.Parallel()
	f := sceneFiles(t)
	const room, bodies = "rooms/lamp/planner/0.json", "bodies/lamp/planner/0.jsonl"
	for _, c := range []struct{ name, file, old, instead, want string }{
		{"keys out of order", "campaign.json", `"bodies_withheld":false,"id":"c_scene",`, `"id":"c_scene","bodies_withheld":false,`, "canonical form from byte"},
		{"a key twice", "campaign.json", `"id":"c_scene",`, `"id":"c_scene","id":"c_scene",`, "twice"},
		{"an unknown key", "campaign.json", `"id":"c_scene",`, `"id":"c_scene","jd":1,`, "unknown field"},
		{"a wrong type", "campaign.json", `"id":"c_scene"`, `"id":7`, "cannot unmarshal number"},
		{"a space", "campaign.json", `"id":"c_scene",`, `"id": "c_scene",`, "canonical form from byte"},
		{"another line end", "campaign.json", "\n", "\r\n", "canonical form from byte"},
		{"no campaign", "campaign.json", `"id":"c_scene"`, `"id":""`, "no id"},
		{"another schema", "campaign.json", "qualify/records/v1", "qualify/records/v2", "which this version reads"},
		{"another campaign", "campaign.json", `"id":"c_scene"`, `"id":"c_scent"`, `the room of trial lamp/legacy/0 is "c_scene/lamp/legacy/0"`},
		{"not an object", "campaign.json", `{`, `[{`, "unexpected end"},
		{"fewer trials", "campaign.json", `"trials":3`, `"trials":2`, "has 3 lines, 2 were written"},
		{"fewer rooms", "campaign.json", `"rooms":4`, `"rooms":5`, "holds 4 rooms, 5 were written"},
		{"bodies said to be withheld", "campaign.json", `"bodies_withheld":false`, `"bodies_withheld":true`, "bodies are withheld"},
		{"the campaign as another", "account.json", `"id":"c_before"`, `"id":"c_scene"`, "campaign c_scene twice"},
		{"a huge number", "account.json", `"max_sum":`, `"max_sum":9999999999999999999`, "cannot unmarshal number"},
		{"a fraction", "account.json", `"sum":100`, `"sum":100.5`, "cannot unmarshal number"},
		{"a number in another form", "account.json", `"sum":100`, `"sum":1e2`, "cannot unmarshal number"},
		{"a number as text", "account.json", `"sum":100`, `"sum":"100"`, "cannot unmarshal string"},
		{"unknown funds", "account.json", `"funds":"simulated","halted"`, `"funds":"play","halted"`, `funds "play" are unknown`},
		{"an allotment twice", "account.json", `"id":"s/2"`, `"id":"s/1"`, "allotment s/1 twice"},
		{"an allotment nowhere", "account.json", `"ceiling":"shared"`, `"ceiling":"nowhere"`, "which is not there"},
		{"an empty list", "account.json", `"overruns":["a/1"]`, `"overruns":[]`, "canonical form from byte"},
		{"rows of the ledger in another order", "ledger.jsonl", `"n":1,`, `"n":9,`, "stands behind row 9"},
		{"a row of another ceiling", "ledger.jsonl", `"ceiling":"shared"`, `"ceiling":"aside"`, "is not there"},
		{"an empty line", "seal-log.jsonl", "\n", "\n\n", "line 2: canonical JSON"},
		{"a trial in a wrong place", "trials.jsonl", `"order":0`, `"order":9`, "out of order"},
		{"a trial twice", "trials.jsonl", `"key":"lamp/planner/0"`, `"key":"lamp/legacy/0"`, "trial lamp/legacy/0 twice"},
		{"a key that leads out", "trials.jsonl", `"key":"lamp-3/planner/0"`, `"key":"../planner/0"`, "is no clean relative path"},
		{"a key with a backslash", "trials.jsonl", `"key":"lamp-3/planner/0"`, `"key":"lamp\\planner/0"`, "has a backslash"},
		{"a trace that is not stored", "trials.jsonl", `"status":"not_run"`, `"status":"not_run","termination":"","trace":"x"`, "twice"},
		{"a row that was edited", room, `"at_us":0`, `"at_us":1`, "does not match its digest"},
		{"a head of another revision", room, `"rev":1,"room"`, `"rev":2,"room"`, "the head is at revision 2"},
		{"a head of another room", room, `"room":"c_scene/lamp/planner/0","salt"`, `"room":"c_scene/lamp/planner/1","salt"`, `is of room "c_scene/lamp/planner/1"`},
		{"funds of a room", room, `"funds":"simulated"`, `"funds":"play"`, `funds "play" are unknown`},
		{"an effect of another room", room, `"room":"c_scene/lamp/planner/0","state":"confirmed"`, `"room":"c_scene","state":"confirmed"`, "does not belong there"},
		{"an operation in a wrong place", room, `"ordinal":1,"receipt"`, `"ordinal":7,"receipt"`, "is out of order"},
		{"an operation without a revision", room, `"rev":0,"role"`, `"rev":7,"role"`, "stands at revision 7"},
		{"a message of no revision", room, `"id":"n2","rev":0`, `"id":"n2","rev":-1`, "stands at revision -1"},
		{"another salt", room, `"salt":"c2FsdA=="`, `"salt":"c2FsdAo="`, "does not match its digest"},
		{"a salt in another spelling", room, `"salt":"c2FsdA=="`, `"salt":"c2FsdB=="`, "canonical form"},
		{"fewer bodies", room, `"bodies":5`, `"bodies":4`, "has 5 lines, 4 were written"},
		{"a number of bodies below zero", room, `"bodies":5`, `"bodies":-5`, "-5 bodies"},
		{"another content", bodies, `please mend the lamp`, `please break the lamp`, "does not match its digest"},
		{"text as base64", bodies, `"text":"please mend the lamp"`, `"text":""`, "does not match its digest"},
		{"a content without a name", bodies, `"digest":"`, `"digest":"0`, "does not match its digest"},
		{"both forms", bodies, `{"base64":"/wB4"`, `{"base64":"/wB4","text":"x"`, "canonical form"},
		{"neither form", bodies, `{"base64":"/wB4",`, `{`, "content is text where it is UTF-8"},
		{"base64 for text", bodies, `{"base64":"/wB4",`, `{"base64":"YWI=",`, "content is text where it is UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := bytes.Replace(f[c.file], []byte(c.old), []byte(c.instead), 1)
			if bytes.Equal(b, f[c.file]) {
				t.Fatalf("%s has no %s:\n%s", c.file, c.old, f[c.file])
			}
			err := unseen(t, c.name, f.with(c.file, b))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want %q on one line", err, c.want)
			}
		})
	}
	deep := bytes.Repeat([]byte("["), 1<<20)
	for _, name := range []string{"campaign.json", room, "trials.jsonl"} {
		if err := unseen(t, "deep "+name, f.with(name, append(deep, '\n'))); err == nil {
			t.Errorf("deep nesting in %s is taken", name)
		}
	}
}

// What is not asked for is not read: a broken room hinders nobody who reads
// another one, and is named when it is read.
func TestABrokenRoomIsNamedWhenItIsRead(t *testing.T) {
	t.Parallel()
	f := sceneFiles(t)
	const name = "rooms/lamp/legacy/0.json"
	a := must(archive.Open(f.with(name, []byte("{}\n"))))(t, "open")
	must(a.Load(t.Context(), sceneID+"/lamp/planner/0"))(t, "another room")
	_, err := a.Load(t.Context(), sceneID+"/lamp/legacy/0")
	if !errors.Is(err, store.ErrCorrupt) || !strings.HasPrefix(err.Error(), name) {
		t.Errorf("the broken room: %v", err)
	}
	_, err = a.ListRooms(t.Context(), "")
	if !errors.Is(err, store.ErrCorrupt) || !strings.HasPrefix(err.Error(), name) {
		t.Errorf("all rooms: %v", err)
	}
	lost := errors.New("the disk is gone")
	if _, err := archive.Open(failing{f, lost}); !errors.Is(err, lost) || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("open without a disk: %v", err)
	}
}

type failing struct {
	folder
	err error
}

func (f failing) ReadFile(string) ([]byte, error) { return nil, f.err }
