package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/bundle"
)

// exhibit is what a third party holds: a bundle, and the attestation of its
// verdict as two envelopes.
type exhibit struct {
	parts    map[string][]byte
	withheld []string
	envelope []byte
}

// unpacked is the tar of a bundle.
func unpacked(t *testing.T, file string) []byte {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	if err := errors.Join(bundle.Decompress(&tar, packed, mostBundle), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return tar.Bytes()
}

// readExhibit reads a bundle.
func readExhibit(t *testing.T, file string, envelope []byte) *exhibit {
	t.Helper()
	tar := unpacked(t, file)
	b, err := bundle.Open(bytes.NewReader(tar), int64(len(tar)))
	if err != nil {
		t.Fatal(err)
	}
	e := &exhibit{parts: map[string][]byte{}, withheld: b.Withheld(), envelope: envelope}
	for _, name := range b.Names() {
		if e.parts[name], err = b.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *exhibit) clone() *exhibit {
	return &exhibit{parts: maps.Clone(e.parts), withheld: slices.Clone(e.withheld), envelope: e.envelope}
}

// equal reports whether nothing was changed.
func (e *exhibit) equal(o *exhibit) bool {
	return maps.EqualFunc(e.parts, o.parts, bytes.Equal) && slices.Equal(e.withheld, o.withheld) && bytes.Equal(e.envelope, o.envelope)
}

// pack writes the bundle, not compressed, with an index of what it holds now.
func (e *exhibit) pack(t *testing.T, file string) {
	t.Helper()
	var out bytes.Buffer
	w := bundle.NewWriter(&out, e.withheld...)
	for _, name := range slices.Sorted(maps.Keys(e.parts)) {
		if err := w.Add(name, e.parts[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// object is a JSON object with its numbers as they are written.
type object = map[string]any

func decodeObject(t *testing.T, data []byte) object {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var o object
	if err := dec.Decode(&o); err != nil {
		t.Fatalf("%v in %.200s", err, data)
	}
	return o
}

func encodeObject(t *testing.T, o any) []byte {
	t.Helper()
	data, err := json.Marshal(o)
	if err == nil {
		data, err = engine.CanonicalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// part is one part; a test that edits one that is not there proves nothing.
func (e *exhibit) part(t *testing.T, name string) []byte {
	t.Helper()
	data, ok := e.parts[name]
	if !ok {
		t.Fatalf("the bundle has no part %s", name)
	}
	return data
}

// replace exchanges the first old of a part for now.
func (e *exhibit) replace(t *testing.T, name, old, now string) {
	t.Helper()
	data := e.part(t, name)
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s does not hold %q", name, old)
	}
	e.parts[name] = bytes.Replace(data, []byte(old), []byte(now), 1)
}

// doc edits a part that is one JSON document.
func (e *exhibit) doc(t *testing.T, name string, edit func(object)) {
	t.Helper()
	o := decodeObject(t, e.part(t, name))
	edit(o)
	e.parts[name] = append(encodeObject(t, o), '\n')
}

// lines edits a part of JSON Lines.
func (e *exhibit) lines(t *testing.T, name string, edit func([]object) []object) {
	t.Helper()
	var out []byte
	for _, o := range edit(e.objects(t, name)) {
		out = append(append(out, encodeObject(t, o)...), '\n')
	}
	e.parts[name] = out
}

func (e *exhibit) objects(t *testing.T, name string) []object {
	t.Helper()
	var all []object
	for line := range bytes.Lines(e.part(t, name)) {
		all = append(all, decodeObject(t, line))
	}
	return all
}

const (
	sealPart     = "records/seal-log.jsonl"
	ledgerPart   = "records/ledger.jsonl"
	trialsPart   = "records/trials.jsonl"
	campaignPart = "records/campaign.json"
	accountPart  = "records/account.json"
)

func tracePart(key string) string  { return "records/traces/" + key + ".jsonl" }
func roomPart(key string) string   { return "records/rooms/" + key + ".json" }
func bodiesPart(key string) string { return "records/bodies/" + key + ".jsonl" }

// log edits the seal log and chains it anew from the first row, as if it had
// always been so.
func (e *exhibit) log(t *testing.T, edit func([]freeze.Row) []freeze.Row) {
	t.Helper()
	rows, err := freeze.ParseRows(e.part(t, sealPart))
	if err != nil {
		t.Fatal(err)
	}
	rows = edit(rows)
	prev := ""
	for i := range rows {
		rows[i].N, rows[i].Prev = int64(i)+1, prev
		rows[i].Digest = freeze.RowDigest(rows[i])
		prev = rows[i].Digest
	}
	var out bytes.Buffer
	if err := freeze.Export(&out, rows); err != nil {
		t.Fatal(err)
	}
	e.parts[sealPart] = out.Bytes()
	e.count(t, "seal_rows", len(rows))
}

// withoutRow leaves out the first row of a kind, or the last.
func (e *exhibit) withoutRow(t *testing.T, kind string, last bool) {
	t.Helper()
	e.log(t, func(rows []freeze.Row) []freeze.Row {
		found := -1
		for i := range rows {
			if rows[i].Kind == kind && (found < 0 || last) {
				found = i
			}
		}
		if found < 0 {
			t.Fatalf("the log has no row %s", kind)
		}
		return slices.Delete(rows, found, found+1)
	})
}

// editRow edits the body of the first row of a kind that is about a campaign,
// "" for any.
func (e *exhibit) editRow(t *testing.T, kind string, edit func(object)) {
	t.Helper()
	id := e.campaign(t)
	e.log(t, func(rows []freeze.Row) []freeze.Row {
		for i := range rows {
			body := decodeObject(t, rows[i].Body)
			if about, ok := body["campaign"]; rows[i].Kind != kind || ok && about != id {
				continue
			}
			edit(body)
			rows[i].Body = encodeObject(t, body)
			return rows
		}
		t.Fatalf("the log has no row %s", kind)
		return nil
	})
}

// campaign is the id of the campaign.
func (e *exhibit) campaign(t *testing.T) string {
	t.Helper()
	id, _ := decodeObject(t, e.part(t, campaignPart))["id"].(string)
	return id
}

// count sets one of the counts in campaign.json.
func (e *exhibit) count(t *testing.T, field string, n int) {
	t.Helper()
	e.doc(t, campaignPart, func(o object) {
		if _, ok := o[field].(json.Number); !ok {
			t.Fatalf("%s has no number %s: %v", campaignPart, field, o[field])
		}
		o[field] = n
	})
}

// trace edits the records of a trial's trace, chains them anew and enters the
// new digest wherever that of the old one stood.
func (e *exhibit) trace(t *testing.T, key string, edit func([]object) []object) {
	t.Helper()
	prev := ""
	e.lines(t, tracePart(key), func(records []object) []object {
		records = edit(records)
		for i, r := range records {
			if i > 0 {
				r["n"] = i
			}
			r["prev"] = prev
			delete(r, "digest")
			prev = engine.Digest(encodeObject(t, r))
			r["digest"] = prev
		}
		return records
	})
	if info, err := trace.Verify(bytes.NewReader(e.parts[tracePart(key)])); err != nil || info.Digest != prev {
		t.Fatalf("the forged trace is not sound by itself: %+v, %v", info, err)
	}
	e.trial(t, key, func(o object) { o["trace"], o["trace_digest"] = prev, prev })
}

// takeTrace gives a trial the trace of another one, of o, with what its record says
// of it.
func (e *exhibit) takeTrace(t *testing.T, key string, o *exhibit, other string) {
	t.Helper()
	e.parts[tracePart(key)] = o.part(t, tracePart(other))
	for _, theirs := range o.objects(t, trialsPart) {
		if theirs["key"] == other {
			e.trial(t, key, func(mine object) { mine["trace"], mine["trace_digest"] = theirs["trace"], theirs["trace_digest"] })
		}
	}
}

// dropEffect leaves the first effect out of a trial's trace.
func (e *exhibit) dropEffect(t *testing.T, key string) {
	t.Helper()
	e.trace(t, key, func(rs []object) []object {
		i := slices.IndexFunc(rs, func(r object) bool { return r["rec"] == "effect" })
		return slices.Delete(rs, i, i+1)
	})
}

// trial edits the record of a trial, and enters the new set of traces in the
// log.
func (e *exhibit) trial(t *testing.T, key string, edit func(object)) {
	t.Helper()
	done := false
	e.lines(t, trialsPart, func(all []object) []object {
		for _, o := range all {
			if o["key"] == key {
				edit(o)
				done = true
			}
		}
		return all
	})
	if !done {
		t.Fatalf("no trial %s", key)
	}
	e.closeSet(t)
}

// dropTrial takes a trial out, with everything that is kept of it.
func (e *exhibit) dropTrial(t *testing.T, key string) {
	t.Helper()
	n := 0
	e.lines(t, trialsPart, func(all []object) []object {
		all = slices.DeleteFunc(all, func(o object) bool { return o["key"] == key })
		n = len(all)
		return all
	})
	for _, name := range []string{tracePart(key), roomPart(key), bodiesPart(key)} {
		e.part(t, name)
		delete(e.parts, name)
	}
	e.count(t, "trials", n)
	e.count(t, "rooms", len(e.under("records/rooms/")))
	e.closeSet(t)
}

// closeSet enters the digest of the set of traces in the last row of the log
// that says it.
func (e *exhibit) closeSet(t *testing.T) {
	t.Helper()
	var set []trace.SetEntry
	for _, o := range e.objects(t, trialsPart) {
		key, _ := o["key"].(string)
		digest, _ := o["trace_digest"].(string)
		set = append(set, trace.SetEntry{Key: key, Digest: digest})
	}
	digest, err := trace.SetDigest(set)
	if err != nil {
		t.Fatal(err)
	}
	e.editRow(t, freeze.KindCampaignEnd, func(o object) {
		if _, ok := o["traces"].(string); !ok {
			t.Fatalf("the end of the campaign in the log names no traces: %v", o)
		}
		o["traces"] = digest
	})
}

// under lists the parts below a folder.
func (e *exhibit) under(folder string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.parts)) {
		if strings.HasPrefix(name, folder) {
			out = append(out, name)
		}
	}
	return out
}

// room edits the rows, operations and effects of a trial's room, and chains the
// rows anew up to the head. The trace names the new head.
func (e *exhibit) room(t *testing.T, key string, edit func(object)) {
	t.Helper()
	head := ""
	e.doc(t, roomPart(key), func(o object) {
		edit(o)
		rows, _ := o["rows"].([]any)
		for _, r := range rows {
			row, _ := r.(object)
			row["prev"] = head
			row["commands_digest"] = engine.Digest(encodeObject(t, row["commands"]))
			head = rowDigest(t, row)
			row["digest"] = head
		}
		h, _ := o["head"].(object)
		h["digest"] = head
	})
	e.trace(t, key, func(records []object) []object {
		records[len(records)-1]["room_digest"] = head
		return records
	})
}

// dropBody leaves out one content of a trial's room.
func (e *exhibit) dropBody(t *testing.T, key string) {
	t.Helper()
	n := 0
	e.lines(t, bodiesPart(key), func(all []object) []object { n = len(all) - 1; return all[:n] })
	e.doc(t, roomPart(key), func(o object) { o["bodies"] = n })
}

// dropBodies leaves out the contents that a trial's room does not name any more.
func (e *exhibit) dropBodies(t *testing.T, key string) {
	t.Helper()
	room, n := string(e.part(t, roomPart(key))), 0
	e.lines(t, bodiesPart(key), func(all []object) []object {
		all = slices.DeleteFunc(all, func(o object) bool {
			digest, _ := o["digest"].(string)
			return !strings.Contains(room, digest)
		})
		n = len(all)
		return all
	})
	e.doc(t, roomPart(key), func(o object) { o["bodies"] = n })
}

func rowDigest(t *testing.T, row object) string {
	t.Helper()
	text := func(name string) string { s, _ := row[name].(string); return s }
	rev, _ := row["rev"].(json.Number)
	n, err := rev.Int64()
	if err != nil {
		t.Fatal(err)
	}
	return store.RowDigest(store.Row{
		Rev: n, Machine: text("machine"), Event: encodeObject(t, row["event"]), CommandsDigest: text("commands_digest"),
		Commands: encodeObject(t, row["commands"]), StateDigest: text("state_digest"), Prev: text("prev"),
	})
}

// judgeAgain replaces verdict and report by what the commands make of the
// forged bundle, as a forger would who has them; where they refuse it, both
// stay as they are.
func (e *exhibit) judgeAgain(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "draft.tar")
	e.pack(t, file)
	if code, out, _ := command(t, "gate", e.campaign(t), "--store", "bundle:"+file, "--json"); code <= exitInconclusive {
		e.parts[partVerdict] = append(encodeObject(t, decodeObject(t, []byte(out))), '\n')
	}
	if code, out, _ := command(t, "report", e.campaign(t), "--store", "bundle:"+file, "--format", "markdown"); code == exitOK {
		e.parts[partReport] = []byte(out)
	}
}

// within is the object that lies in o under names.
func within(t *testing.T, o object, names ...string) object {
	t.Helper()
	for _, name := range names {
		next, ok := o[name].(object)
		if !ok {
			t.Fatalf("no object %s in %v", name, slices.Sorted(maps.Keys(o)))
		}
		o = next
	}
	return o
}

// lower takes one from a number.
func lower(t *testing.T, o object, name string) {
	t.Helper()
	n, _ := o[name].(json.Number)
	v, err := n.Int64()
	if err != nil {
		t.Fatalf("%s is %v: %v", name, o[name], err)
	}
	o[name] = v - 1
}

// refreeze edits the manifest in the log, and gives it the new id wherever the
// old one stood.
func (e *exhibit) refreeze(t *testing.T, edit func(object)) {
	t.Helper()
	var was, is string
	e.editRow(t, freeze.KindFreeze, func(o object) {
		was, _ = o["freeze"].(string)
		m, _ := o["manifest"].(object)
		edit(m)
		parsed, err := freeze.Parse(encodeObject(t, m))
		if err != nil {
			t.Fatal(err)
		}
		if is, err = parsed.ID(); err != nil {
			t.Fatal(err)
		}
		o["freeze"] = is
	})
	e.log(t, func(rows []freeze.Row) []freeze.Row {
		for i := range rows {
			rows[i].Body = bytes.ReplaceAll(rows[i].Body, []byte(was), []byte(is))
		}
		return rows
	})
}

// ledgerRow edits the first row of a kind.
func (e *exhibit) ledgerRow(t *testing.T, kind string, edit func(object)) {
	t.Helper()
	e.lines(t, ledgerPart, func(all []object) []object {
		i := slices.IndexFunc(all, func(o object) bool { return o["kind"] == kind })
		if i < 0 {
			t.Fatalf("the ledger has no row %s", kind)
		}
		edit(all[i])
		return all
	})
}

// last is the last object of a list.
func last(t *testing.T, o object, list string) object {
	t.Helper()
	all, _ := o[list].([]any)
	if len(all) == 0 {
		t.Fatalf("no %s", list)
	}
	item, _ := all[len(all)-1].(object)
	return item
}
