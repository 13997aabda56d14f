package freeze

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Difference is one thing in which two manifests differ. Old or New is Absent
// where only one of them has it.
type Difference struct {
	Part string `json:"part"` // file, tree, binary, module, prompt, price, model, case, gold, …
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
	Note string `json:"note,omitempty"` // what the difference comes down to, where that is provable
}

// Absent stands for a value that one of two manifests does not have.
const Absent = "(absent)"

// String is one line: the part, its name, the old and the new value.
func (d Difference) String() string {
	s := fmt.Sprintf("%s %s: %s → %s", d.Part, d.Name, d.Old, d.New)
	if d.Note != "" {
		s += " (" + d.Note + ")"
	}
	return s
}

// Diff lists everything in which b differs from a, sorted by part and name. It
// is empty exactly when their ids are equal.
func Diff(a, b *Manifest) []Difference {
	out := diffParts(a, b)
	old, now := map[string]string{}, map[string]string{}
	flatBinaries(old, a)
	flatBinaries(now, b)
	return sorted(append(out, diffMaps("binary", old, now)...))
}

// Verify lists in what the present, as Build finds it, differs from a frozen
// manifest. Unlike Diff it lets the present be any one of the allowed binaries:
// each binary of now must be listed in frozen with the same platform and
// digest.
func Verify(frozen, now *Manifest) []Difference {
	out := diffParts(frozen, now)
	for _, b := range now.Binaries {
		var allowed []string
		found := false
		for _, f := range frozen.Binaries {
			if f.Platform == b.Platform {
				allowed = append(allowed, f.brief())
				found = found || f.SHA256 == b.SHA256
			}
		}
		if found {
			continue
		}
		d := Difference{Part: "binary", Name: b.Platform, Old: strings.Join(allowed, " or "), New: b.brief()}
		if len(allowed) == 0 {
			d.Old, d.Note = Absent, "the freeze allows no binary for this platform"
		}
		out = append(out, d)
	}
	if len(now.Binaries) == 0 {
		out = append(out, Difference{Part: "binary", Name: "running", Old: strconv.Itoa(len(frozen.Binaries)) + " allowed", New: Absent})
	}
	return sorted(out)
}

func (b Binary) brief() string {
	s := "sha256:" + b.SHA256 + " " + b.Go
	if r := b.Settings["vcs.revision"]; r != "" {
		s += " " + r
		if b.Settings["vcs.modified"] == "true" {
			s += "+dirty"
		}
	}
	return s
}

// diffParts compares everything but the binaries.
func diffParts(a, b *Manifest) []Difference {
	var out []Difference
	for _, p := range []struct {
		part     string
		old, now map[string]string
	}{
		{"manifest", header(a), header(b)},
		{"module", a.Modules, b.Modules},
		{"prompt", a.Prompts, b.Prompts},
		{"price", a.Prices, b.Prices},
		{"model", a.Models, b.Models},
		{"evaluator", a.Evaluator, b.Evaluator},
		{"policy", a.Policy, b.Policy},
		{"plan", a.Plan, b.Plan},
		{"sealed corpus", a.Corpus.Sealed, b.Corpus.Sealed},
		{"split", splits(a, splitDigest), splits(b, splitDigest)},
		{"case", splits(a, splitCases), splits(b, splitCases)},
		{"gold", splits(a, splitGold), splits(b, splitGold)},
		{"tree", trees(a), trees(b)},
	} {
		out = append(out, diffMaps(p.part, p.old, p.now)...)
	}
	return append(out, diffFiles(a, b)...)
}

func diffMaps(part string, old, now map[string]string) []Difference {
	var out []Difference
	for name, o := range old {
		if n, ok := now[name]; !ok {
			out = append(out, Difference{Part: part, Name: name, Old: o, New: Absent})
		} else if n != o {
			out = append(out, Difference{Part: part, Name: name, Old: o, New: n})
		}
	}
	for name, n := range now {
		if _, ok := old[name]; !ok {
			out = append(out, Difference{Part: part, Name: name, Old: Absent, New: n})
		}
	}
	return out
}

func sorted(ds []Difference) []Difference {
	slices.SortFunc(ds, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Old, b.Old), cmp.Compare(a.New, b.New))
	})
	return ds
}

func header(m *Manifest) map[string]string {
	return map[string]string{
		"schema": m.Schema, "name": m.Name, "corpus": m.Corpus.Name,
		"source.campaign": m.Source.Campaign, "source.policy": m.Source.Policy,
		"source.exclude": fmt.Sprintf("%q", m.Source.Exclude),
	}
}

func splitDigest(s Split, add func(name, value string)) { add("", s.Digest) }

func splitCases(s Split, add func(name, value string)) {
	for id, d := range s.Cases {
		add("/"+id, d)
	}
}

func splitGold(s Split, add func(name, value string)) {
	for id, d := range s.Gold {
		add("/"+id, d)
	}
}

func splits(m *Manifest, each func(Split, func(name, value string))) map[string]string {
	out := map[string]string{}
	for name, s := range m.Corpus.Splits {
		each(s, func(sub, value string) { out[name+sub] = value })
	}
	return out
}

func trees(m *Manifest) map[string]string {
	out := map[string]string{}
	for _, t := range m.Trees {
		out[t.Path] = t.H1
	}
	return out
}

func flatBinaries(out map[string]string, m *Manifest) {
	for _, b := range m.Binaries {
		name := b.Platform + " sha256:" + b.SHA256
		out[name] = strings.Join([]string{strconv.FormatInt(b.Size, 10) + " bytes", b.Go, b.Module, b.Sum}, " ")
		for k, v := range b.Settings {
			out[name+" "+k] = v
		}
	}
}

// diffFiles compares the files of all trees by name: a file that another tree
// covers now is the same file.
func diffFiles(a, b *Manifest) []Difference {
	old, now := files(a), files(b)
	var out []Difference
	for name, o := range old {
		n, ok := now[name]
		switch {
		case !ok:
			out = append(out, Difference{Part: "file", Name: name, Old: o.brief(), New: Absent})
		case n != o:
			d := Difference{Part: "file", Name: name, Old: o.brief(), New: n.brief(), Note: compareFiles(o, n)}
			if d.Old == d.New { // no file system gives two such files; a forged manifest may
				d.Old, d.New = fmt.Sprintf("%+v", o), fmt.Sprintf("%+v", n)
			}
			out = append(out, d)
		}
	}
	for name, n := range now {
		if _, ok := old[name]; !ok {
			out = append(out, Difference{Part: "file", Name: name, Old: Absent, New: n.brief()})
		}
	}
	return out
}

func files(m *Manifest) map[string]File {
	out := map[string]File{}
	for _, t := range m.Trees {
		for _, f := range t.Files {
			out[f.Name] = f
		}
	}
	return out
}

func (f File) brief() string {
	switch {
	case f.Link:
		return "link to " + strconv.Quote(f.To)
	case f.Exec:
		return "sha256:" + f.SHA256 + " executable"
	}
	return "sha256:" + f.SHA256
}

// compareFiles says what a change of a file comes down to, where the digests
// prove it.
func compareFiles(o, n File) string {
	switch {
	case o.Link != n.Link:
		return "a file on one side, a link on the other"
	case o.SHA256 == n.SHA256 && o.Exec != n.Exec:
		return "permission to execute only"
	case o.SHA256 != n.SHA256 && (o.LF == n.SHA256 || n.LF == o.SHA256 || o.LF != "" && o.LF == n.LF):
		return "line ends only: check the eol settings of the checkout"
	}
	return ""
}
