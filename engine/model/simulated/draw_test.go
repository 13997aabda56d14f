package simulated

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Fixed vectors: a change of them changes every simulated trace.
func TestDrawsAreFixed(t *testing.T) {
	t.Parallel()
	d := dice{key: Key{Seed: 7, Case: "ledger", Trial: 2, Salt: "planner"}, op: "op_1"}
	got := []uint64{d.below(1_000_000, "latency"), d.below(6, "plan_fault:kind"), d.below(1<<63, "skip_step:s1")}
	if diff := cmp.Diff([]uint64{653103, 4, 2511506652498294812}, got); diff != "" {
		t.Error(diff)
	}
}

// Every part of the key, the operation and the name matter.
func TestDrawsDependOnEveryPart(t *testing.T) {
	t.Parallel()
	base := dice{key: Key{Seed: 7, Case: "a", Trial: 1, Salt: "b"}, op: "c"}
	seen := map[uint64]string{}
	for name, d := range map[string]dice{
		"base": base, "seed": {Key{8, "a", 1, "b"}, "c"}, "case": {Key{7, "x", 1, "b"}, "c"}, "trial": {Key{7, "a", 2, "b"}, "c"},
		"salt": {Key{7, "a", 1, "x"}, "c"}, "op": {Key{7, "a", 1, "b"}, "x"}, "shifted": {Key{7, "ab", 1, ""}, "c"},
	} {
		n := d.below(1<<62, "n")
		if other, ok := seen[n]; ok {
			t.Errorf("%s draws as %s", name, other)
		}
		seen[n] = name
	}
	if base.below(1<<62, "n") == base.below(1<<62, "m") {
		t.Error("the name does not matter")
	}
}

func TestRatesAreKept(t *testing.T) {
	t.Parallel()
	for _, rate := range []Rate{0, 150_000, 500_000, always} {
		n := 0
		for i := range 4000 {
			if (dice{op: strconv.Itoa(i)}).hit(rate, "x") {
				n++
			}
		}
		want := int(rate) * 4000 / int(always)
		if n < want-160 || n > want+160 || (rate == 0 || rate == always) && n != want {
			t.Errorf("rate %d: %d of 4000, want about %d", rate, n, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Rate{"0": 0, "0.15": 150_000, "1": always, "0.000001": 1, "1.000000": always} {
		if got, err := ParseRate(s); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "1.000001", "-0.1", "0.0000001", "2", "1e-1", "x", "NaN"} {
		if got, err := ParseRate(s); err == nil {
			t.Errorf("%q: %d, want an error", s, got)
		}
	}
}

func TestLatencyQuantiles(t *testing.T) {
	t.Parallel()
	l := Latency{MedianMS: 1800, P95MS: 6000}
	for ppm, want := range map[int64]int64{0: 900_000, 250_000: 1_350_000, 500_000: 1_800_000, 950_000: 6_000_000, 975_000: 8_100_000} {
		if got := l.quantile(ppm); got != want {
			t.Errorf("quantile %d: %d us, want %d", ppm, got, want)
		}
	}
	last := int64(-1)
	for ppm := int64(0); ppm < 1_000_000; ppm += 997 {
		got := l.quantile(ppm)
		if got < last {
			t.Fatalf("quantile falls at %d", ppm)
		}
		last = got
	}
	if (Latency{}).quantile(999_999) != 0 {
		t.Error("the zero latency takes time")
	}
}

// Draws and durations are integers on every machine: no file of the package
// names a floating-point type or holds such a literal.
func TestNoFloatingPoint(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (id.Name == "float64" || id.Name == "float32") {
				t.Errorf("%s names %s", e.Name(), id.Name)
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.FLOAT {
				t.Errorf("%s holds %s", e.Name(), lit.Value)
			}
			return true
		})
	}
	if files < 10 {
		t.Errorf("only %d files looked at", files)
	}
}
