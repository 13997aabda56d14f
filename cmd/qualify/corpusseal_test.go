package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/agentrooms/qualify/corpus/seal"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/freeze"
)

// locked is a held-out folder whose corpus is sealed and the plain one gone.
type locked struct {
	heldOut
	key, recipient string
	plain          string // the corpus in plain text, elsewhere
}

// newLocked seals the corpus of a frozen folder. Comments of its case and gold
// files hold unread, which no trace can hold.
func newLocked(t *testing.T, trials string) locked {
	t.Helper()
	l := locked{heldOut: heldOut{dir: frozenFolder(t)}, plain: filepath.Join(t.TempDir(), "cases")}
	l.key = filepath.Join(t.TempDir(), "corpus.key")
	editFile(t, l.path("qualify/campaign.yaml"), "trials: 5", "trials: "+trials)
	editFile(t, l.path("qualify/campaign.yaml"), "\nfreeze:", "\npolicy: policy.yaml\nfreeze:")
	editFile(t, l.path("qualify/campaign.yaml"), "corpus: cases", "corpus: cases.sealed")
	for _, name := range []string{"ledger/", "gold/ledger/"} {
		editFile(t, l.path("qualify/cases/"+name+"ledger-cash-tin-02.yaml"), "schema:", "# "+unread+"\nschema:")
	}
	must(t, os.Rename(l.path("qualify/cases"), l.plain))
	l.recipient = keygenTo(t, l.key)
	l.seal(t, "--to", l.recipient)
	return l
}

// unread is a text that only files of the corpus hold.
const unread = "the marrow in the bathtub"

func keygenTo(t *testing.T, path string) (recipient string) {
	t.Helper()
	code, out, talk := command(t, "corpus", "keygen", "-o", path)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, talk)
	}
	return strings.TrimSpace(out)
}

func (l locked) file() string { return l.path("qualify/cases.sealed") }

func (l locked) seal(t *testing.T, more ...string) {
	t.Helper()
	if code, _, talk := command(t, append([]string{"corpus", "seal", l.plain, "-o", l.file()}, more...)...); code != exitOK {
		t.Fatalf("seal %v: exit %d: %s", more, code, talk)
	}
}

// freezeIt freezes the folder with the key.
func (l *locked) freezeIt(t *testing.T) {
	t.Helper()
	code, out, talk := command(t, "freeze", "create", l.path("qualify/campaign.yaml"), "--store", l.db(), "--corpus-key", l.key, "--json")
	var doc freezeDoc
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("exit %d: %s: %v", code, talk, err)
	}
	l.id = doc.Freeze
}

func (l locked) rewrite(t *testing.T, edit func([]byte) []byte) (before []byte) {
	t.Helper()
	before, err := os.ReadFile(l.file())
	must(t, err)
	after := edit(bytes.Clone(before))
	if bytes.Equal(before, after) {
		t.Fatal("nothing is changed")
	}
	must(t, os.WriteFile(l.file(), after, 0o600))
	return before
}

// TestQ4_OneChangedByteOfASealedCorpusStopsTheHoldout changes the sealed file of a
// freeze in one way after another. Each run is refused and names it; nothing is
// opened. Put back, the holdout runs.
func TestQ4_OneChangedByteOfASealedCorpusStopsTheHoldout(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "1")
	l.freezeIt(t)
	flip := func(at func(b []byte) int) func([]byte) []byte {
		return func(b []byte) []byte { b[at(b)] ^= 1; return b }
	}
	for _, tc := range []struct {
		name string
		exit int
		want string
		edit func(b []byte) []byte
	}{
		{"its last byte", exitUsage, "not a sound sealed corpus: what follows its manifest is sha256:", flip(func(b []byte) int { return len(b) - 1 })},
		{"a digest in its manifest", exitUsage, "not a sound sealed corpus: its first line is not the manifest it was sealed with", func(b []byte) []byte {
			return edited(t, b, func(m *seal.Manifest) { m.Splits["holdout"].Gold["ledger-cash-tin-02"] = m.Digest })
		}},
		{"its audit", exitUsage, "not a sound sealed corpus: its first line is not the manifest it was sealed with", func(b []byte) []byte {
			return edited(t, b, func(m *seal.Manifest) { m.Lint.Findings, m.Lint.Rules = 1, map[string]int{"plan": 1} })
		}},
		{"the same sealed again", exitRefused, "the present is not freeze f_", func(b []byte) []byte {
			l.seal(t, "--to", l.recipient)
			again, err := os.ReadFile(l.file())
			must(t, err)
			return again
		}},
		{"the same with another audit", exitRefused, "sealed corpus lint/findings: 0 → 1", func(b []byte) []byte {
			return resealed(t, b, l.key, l.recipient, func(c *seal.Content) { c.Lint.Findings, c.Lint.Rules = 1, map[string]int{"plan": 1} })
		}},
		{"other gold than its manifest says", exitUsage, "gold of case ledger-cash-tin-02: its digest is sha256:", func(b []byte) []byte {
			return resealed(t, b, l.key, l.recipient, func(c *seal.Content) { c.Gold["ledger-cash-tin-02"] = c.Gold["ledger-two-books-01"] })
		}},
	} {
		before := l.rewrite(t, tc.edit)
		code, out, talk := command(t, l.args("--freeze", l.id, "--corpus-key", l.key)...)
		if code != tc.exit || out != "" || strings.Count(talk, "\n") != 1 || !strings.Contains(talk, tc.want) {
			t.Errorf("%s: exit %d, %s, want %q", tc.name, code, talk, tc.want)
		}
		if tc.exit == exitRefused && !strings.Contains(talk, "sealed corpus file: sha256:") || tc.exit == exitUsage && !strings.Contains(talk, "cases.sealed") {
			t.Errorf("%s: the file is not named: %s", tc.name, talk)
		}
		must(t, os.WriteFile(l.file(), before, 0o600))
	}
	if n := count(l.rows(t), freeze.KindOpening); n != 0 {
		t.Errorf("%d openings", n)
	}
	l.run(t, exitOK, "--corpus-key", l.key)
	if n := count(l.rows(t), freeze.KindOpening); n != 1 {
		t.Errorf("%d openings", n)
	}
}

// edited changes the first line of a sealed corpus.
func edited(t *testing.T, b []byte, edit func(m *seal.Manifest)) []byte {
	t.Helper()
	m, err := seal.ReadManifest(bytes.NewReader(b))
	must(t, err)
	edit(m)
	line, err := engine.Canonical(m)
	must(t, err)
	_, payload, _ := bytes.Cut(b, []byte("\n"))
	return append(append(line, '\n'), payload...)
}

// resealed opens a sealed corpus and seals it again with something changed.
func resealed(t *testing.T, b []byte, key, recipient string, edit func(c *seal.Content)) []byte {
	t.Helper()
	text, err := os.ReadFile(key)
	must(t, err)
	ids, err := age.ParseIdentities(bytes.NewReader(text))
	must(t, err)
	o, err := seal.Open(bytes.NewReader(b), ids...)
	must(t, err)
	to, err := age.ParseRecipients(strings.NewReader(recipient))
	must(t, err)
	content := seal.Content{Files: o.Files, Gold: map[string]string{}, Lint: o.Manifest.Lint}
	for _, s := range o.Manifest.Splits {
		maps.Copy(content.Gold, s.Gold)
	}
	edit(&content)
	var out bytes.Buffer
	_, err = seal.Seal(&out, content, to...)
	must(t, err)
	return out.Bytes()
}

// TestQ4_AChangeOfASealedCorpusVoidsTheBatch damages the sealed file while the
// second of three batches runs. The key is gone by then too, which stops nothing:
// it was read.
func TestQ4_AChangeOfASealedCorpusVoidsTheBatch(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "3")
	l.freezeIt(t)
	code, talk := commandOn(t.Context(), func(s store.Store) store.Store {
		must(t, os.Remove(l.key))
		return &between{s, func() {
			l.rewrite(t, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}}
	}, l.args("--freeze", l.id, "--parallel", "1", "--corpus-key", l.key)...)
	if code != exitRefused || !strings.Contains(talk, "cases.sealed: not a sound sealed corpus") || !strings.Contains(talk, "void results from batch 1 on: 4") {
		t.Fatalf("exit %d, %s", code, talk)
	}
	rows := l.rows(t)
	if held := freeze.HoldoutOf(rows, registered(t, rows)); len(held.Voids) != 1 || held.Verified != 1 {
		t.Errorf("%+v", held)
	}
}

// TestQ4_ASealedCorpusRunsAsItsFolder: identity, registration, draws and traces
// do not depend on whether the corpus was sealed.
func TestQ4_ASealedCorpusRunsAsItsFolder(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "1")
	campaign := func(corpusName, db string, more ...string) evaluator.RunDocument {
		t.Helper()
		text, err := os.ReadFile(l.path("qualify/campaign.yaml"))
		must(t, err)
		file := l.path("qualify/" + db + ".yaml")
		must(t, os.WriteFile(file, bytes.Replace(text, []byte("corpus: cases.sealed"), []byte("corpus: "+corpusName), 1), 0o600))
		code, out, talk := command(t, append([]string{"run", file, "--store", "sqlite:" + l.path(db+".db"), "--json"}, more...)...)
		var doc evaluator.RunDocument
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%s: exit %d: %s: %v", corpusName, code, talk, err)
		}
		return doc
	}
	plain := campaign(l.plain, "plain")
	sealed := campaign("cases.sealed", "sealed", "--corpus-key", l.key)
	if plain.Campaign != sealed.Campaign || plain.Campaign.Registration == "" {
		t.Errorf("campaign %+v, sealed %+v", plain.Campaign, sealed.Campaign)
	}
	if plain.TraceSetDigest != sealed.TraceSetDigest || plain.TraceSetDigest == "" {
		t.Errorf("traces %s, sealed %s", plain.TraceSetDigest, sealed.TraceSetDigest)
	}
	// What reads the store takes either.
	for _, args := range [][]string{
		{"trace", "verify", "--campaign", "demo"},
		{"gate", "demo", "--policy", l.path("qualify/policy.yaml"), "--json"},
		{"gate", l.path("qualify/sealed.yaml"), "--plan"},
	} {
		over := func(corpusName string) (int, string) {
			code, out, talk := command(t, append(args, "--store", "sqlite:"+l.path("sealed.db"), "--corpus", corpusName, "--corpus-key", l.key)...)
			if code >= exitUsage {
				t.Errorf("%v: exit %d: %s", args, code, talk)
			}
			return code, out
		}
		code, out := over(l.plain)
		if code2, out2 := over(l.file()); code2 != code || out2 != out || out == "" {
			t.Errorf("%v: exit %d and %d:\n%s\n%s", args, code, code2, out, out2)
		}
	}
}

// TestQ4_NothingOfASealedCorpusIsWritten runs a sealed corpus and looks through
// everything on the disk for comments of its files, and for the key.
func TestQ4_NothingOfASealedCorpusIsWritten(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "1")
	tmp := t.TempDir()
	secret := secretIn(t, l.key)
	do := func(args ...string) {
		t.Helper()
		env := []string{"TMPDIR=" + tmp, "TMP=" + tmp, "TEMP=" + tmp, envCorpusKey + "=" + l.key}
		out, code := ran(t, l.dir, env, qualifyBin(t), append(args, "--store", l.db())...)
		if code != exitOK && code != exitInconclusive {
			t.Fatalf("%v: exit %d: %s", args, code, out)
		}
		if strings.Contains(out, secret) {
			t.Errorf("%v shows the key", args)
		}
	}
	do("freeze", "create", "qualify/campaign.yaml")
	do("run", "qualify/campaign.yaml", "--split", "holdout", "--freeze", "f_")
	do("corpus", "lint", "--corpus", "qualify/cases.sealed")
	do("gate", "demo", "--policy", "qualify/policy.yaml", "--corpus", "qualify/cases.sealed")
	looked := 0
	for _, dir := range []string{l.dir, tmp} {
		must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			looked++
			for _, text := range []string{unread, secret} {
				if bytes.Contains(b, []byte(text)) {
					t.Errorf("%s holds %q", path, text)
				}
			}
			return err
		}))
	}
	if looked < 5 {
		t.Errorf("only %d files were looked through", looked)
	}
}

// secretIn is the key in a key file.
func secretIn(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	for l := range strings.Lines(string(b)) {
		if isSecretKey(l) {
			return strings.TrimSpace(l)
		}
	}
	t.Fatalf("%s holds no key", path)
	return ""
}

// TestQ4_WrongKeysOfASealedCorpusAreRefused gives keys that are none, or open
// nothing: one line each, which shows no key.
func TestQ4_WrongKeysOfASealedCorpusAreRefused(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "1")
	dir := t.TempDir()
	other := filepath.Join(dir, "other.key")
	keygenTo(t, other)
	secret := secretIn(t, l.key)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	broken := secret[:len(secret)-1] + "!"
	for _, tc := range []struct {
		name, want string
		exit       int
		keys       []string
	}{
		{"none", "is sealed; give its key with --corpus-key FILE or QUALIFY_CORPUS_KEY", exitRefused, nil},
		{"another", "no key given opens the sealed corpus", exitRefused, []string{other}},
		{"a missing one", "--corpus-key: ", exitUsage, []string{filepath.Join(dir, "gone")}},
		{"a folder", "is a directory", exitUsage, []string{dir}},
		{"an empty one", "empty", exitUsage, []string{write("empty", "")}},
		{"garbage", "is no file of age identities", exitUsage, []string{write("garbage", "\x00\xffgarbage")}},
		{"a key with a wrong sign", "is no file of age identities", exitUsage, []string{write("broken", broken)}},
		{"a key and garbage", "is no file of age identities", exitUsage, []string{write("more", secret+"\ngarbage\n")}},
		{"a recipient", "is no file of age identities", exitUsage, []string{write("recipient", l.recipient)}},
		{"the key itself", "takes the name of a file with the key", exitUsage, []string{secret}},
		{"the right one and a bad one", "is no file of age identities", exitUsage, []string{l.key, write("bad", "x")}},
		{"the right one behind another", "", exitOK, []string{other, l.key}},
	} {
		args := []string{"corpus", "lint", "--corpus", l.file()}
		for _, k := range tc.keys {
			args = append(args, "--corpus-key", k)
		}
		code, out, talk := command(t, args...)
		if code != tc.exit || !strings.Contains(talk, tc.want) || code != exitOK && (out != "" || strings.Count(talk, "\n") != 1) {
			t.Errorf("%s: exit %d, %q %q, want %d and %q", tc.name, code, out, talk, tc.exit, tc.want)
		}
		for _, shown := range []string{secret, broken} {
			if strings.Contains(out+talk, shown) {
				t.Errorf("%s: a key is shown", tc.name)
			}
		}
	}
	// Every other way to a sealed corpus asks for its key too.
	for _, args := range [][]string{
		{"run", l.path("qualify/campaign.yaml")},
		{"freeze", "create", l.path("qualify/campaign.yaml")},
		{"gate", l.path("qualify/campaign.yaml"), "--plan"},
		{"corpus", "show", "ledger-cash-tin-02", "--corpus", l.file()},
		{"corpus", "unseal", l.file(), "-o", filepath.Join(dir, "out")},
	} {
		code, out, talk := command(t, append(args, "--store", l.db())...)
		if code != exitRefused || out != "" || !strings.Contains(talk, "is sealed; give its key") {
			t.Errorf("%v: exit %d, %s%s", args, code, out, talk)
		}
	}
}

// TestQ4_WhatIsSealedWasAudited: findings, missing gold, faults and outputs in
// the wrong place are refused, and leave nothing.
func TestQ4_WhatIsSealedWasAudited(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "1")
	before, err := os.ReadFile(l.file())
	must(t, err)
	out := filepath.Join(t.TempDir(), "x.sealed")
	refused := func(name string, exit int, want string, args ...string) {
		t.Helper()
		code, stdout, talk := command(t, append([]string{"corpus", "seal"}, args...)...)
		if code != exit || stdout != "" || strings.Count(talk, "\n") != 1 || !strings.Contains(talk, want) {
			t.Errorf("%s: exit %d, %s%s, want %q", name, code, stdout, talk, want)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a file is left", name)
		}
	}
	to := []string{l.plain, "-o", out, "--to", l.recipient}
	refused("no recipient", exitUsage, "name who can open it with --to", to[:3]...)
	refused("no output", exitUsage, "with -o", l.plain, "--to", l.recipient)
	refused("a recipient that is none", exitUsage, "is no age recipient", l.plain, "-o", out, "--to", l.recipient+"x")
	refused("a key for a recipient", exitUsage, "is a secret key", l.plain, "-o", out, "--to", secretIn(t, l.key))
	refused("a key file for recipients", exitUsage, "is no age recipient", l.plain, "-o", out, "--to", l.key)
	refused("a file for the folder", exitUsage, "is a file; name the folder", l.file(), "-o", out, "--to", l.recipient)
	refused("no folder", exitUsage, "no such file", l.plain+"x", "-o", out, "--to", l.recipient)
	refused("an output inside", exitUsage, "lies in the corpus", l.plain, "-o", filepath.Join(l.plain, "ledger", "x"), "--to", l.recipient)
	if runtime.GOOS != "windows" {
		link := filepath.Join(t.TempDir(), "link")
		must(t, os.Symlink(l.plain, link))
		refused("an output inside by a link", exitUsage, "lies in the corpus", l.plain, "-o", filepath.Join(link, "x"), "--to", l.recipient)
		must(t, os.Symlink(l.key, filepath.Join(l.plain, "ledger", "linked.yaml")))
		refused("a link", exitUsage, "ledger/linked.yaml: is a symbolic link", to...)
		must(t, os.Remove(filepath.Join(l.plain, "ledger", "linked.yaml")))
	}
	file := filepath.Join(t.TempDir(), "recipients")
	must(t, os.WriteFile(file, []byte("# us\n"+l.recipient+"\n"), 0o600))
	refused("an output that is read", exitRefused, "would replace it", l.plain, "-o", file, "--to", file)

	editFile(t, filepath.Join(l.plain, "gold/ledger/ledger-cash-tin-02.yaml"), "args: {line: l-2, cents: 580}, after", "args: {line: l-2, cents: 581}, after")
	refused("findings", exitRefused, "--with-findings seals it as it is", to...)
	code, stdout, talk := command(t, append([]string{"corpus", "seal", "--with-findings"}, to...)...)
	if code != exitOK || strings.Contains(stdout, " 0 findings") {
		t.Errorf("--with-findings: exit %d, %s%s", code, stdout, talk)
	}
	m, _, err := sealedManifest(out)
	must(t, err)
	if m.Lint.Findings == 0 || m.Lint.Cases != 2 || len(m.Lint.Rules) == 0 {
		t.Errorf("%+v", m.Lint)
	}
	must(t, os.Remove(out))

	must(t, os.RemoveAll(filepath.Join(l.plain, "gold")))
	refused("no gold", exitUsage, "has no gold", to...)
	must(t, os.WriteFile(filepath.Join(l.plain, "ledger", "notes.txt"), nil, 0o600))
	refused("a fault", exitUsage, "ledger/notes.txt: a family folder holds", to...)
	if now, err := os.ReadFile(l.file()); err != nil || !bytes.Equal(now, before) {
		t.Errorf("the sealed file was touched: %v", err)
	}
}

func TestQ4_UnsealMakesANewFolder(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "1")
	out := filepath.Join(t.TempDir(), "cases")
	if code, _, talk := command(t, "corpus", "unseal", l.file(), "--key", l.key, "-o", out); code != exitOK {
		t.Fatalf("exit %d: %s", code, talk)
	}
	for _, f := range []string{"ledger/ledger-cash-tin-02.yaml", "gold/ledger/ledger-cash-tin-02.yaml", "ledger/ledger-two-books-01.yaml"} {
		want, err := os.ReadFile(filepath.Join(l.plain, f))
		must(t, err)
		if got, err := os.ReadFile(filepath.Join(out, f)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", f, err)
		}
		if info, err := os.Stat(filepath.Join(out, f)); err == nil && runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", f, info.Mode())
		}
	}
	if code, _, talk := command(t, "corpus", "unseal", l.file(), "--key", l.key, "-o", out); code != exitRefused || !strings.Contains(talk, "is there already") {
		t.Errorf("a second time: exit %d: %s", code, talk)
	}
	l.rewrite(t, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	if code, _, _ := command(t, "corpus", "unseal", l.file(), "--key", l.key, "-o", out+"2"); code != exitUsage {
		t.Errorf("a damaged file: exit %d", code)
	}
	left, err := os.ReadDir(filepath.Dir(out))
	must(t, err)
	if len(left) != 1 {
		t.Errorf("left beside the folder: %v", left)
	}
}
