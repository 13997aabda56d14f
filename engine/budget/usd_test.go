package budget

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseUSD(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"0": 0, "0.08": 80_000, "5": 5_000_000, "4.752720": 4_752_720, "0.000001": 1, "00.5": 500_000,
		"9223372036854.775807": math.MaxInt64,
	} {
		if got, err := ParseUSD(in); err != nil || got != want {
			t.Errorf("ParseUSD(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		"": ErrSyntax, ".": ErrSyntax, "1.": ErrSyntax, ".5": ErrSyntax, "+1": ErrSyntax, "1e3": ErrSyntax, "1 2": ErrSyntax, "1,5": ErrSyntax,
		"1_0": ErrSyntax, "0x1": ErrSyntax, "1.2.3": ErrSyntax, "NaN": ErrSyntax, "Inf": ErrSyntax, "١": ErrSyntax, "-": ErrSyntax, "--1": ErrSyntax,
		"1.0000000": ErrPrecision, "0.0000001": ErrPrecision,
		"-1": ErrNegative, "-0.5": ErrNegative, "-99999999999999999999": ErrNegative, "-0.0000001": ErrNegative,
		"9223372036854.775808": ErrOverflow, "9223372036855": ErrOverflow, "99999999999999999999": ErrOverflow,
	} {
		got, err := ParseUSD(in)
		if !errors.Is(err, want) || got != 0 {
			t.Errorf("ParseUSD(%q) = %d, %v; want error %v", in, got, err, want)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `"`+in+`"`) {
			t.Errorf("ParseUSD(%q): message %q is not one line that quotes the input", in, err)
		}
	}
}

func TestFormatUSD(t *testing.T) {
	t.Parallel()
	for in, want := range map[int64]string{
		0: "0.00", 80_000: "0.08", 100_000: "0.10", 4_752_720: "4.75272", 1: "0.000001", 5_000_000: "5.00", -5_135_000: "-5.135",
		math.MinInt64: "-9223372036854.775808",
	} {
		if got := FormatUSD(in); got != want {
			t.Errorf("FormatUSD(%d) = %s, want %s", in, got, want)
		}
	}
}

func TestFormatReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64).Draw(t, "micros")
		got, err := ParseUSD(FormatUSD(n))
		if err != nil || got != n {
			t.Fatalf("%d reads back as %d, %v", n, got, err)
		}
	})
}

func FuzzParseUSD(f *testing.F) {
	for _, s := range []string{"0.08", "-1", "1e5", "9223372036854.775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseUSD(s)
		if err != nil {
			return
		}
		if back, err := ParseUSD(FormatUSD(n)); n < 0 || err != nil || back != n {
			t.Fatalf("%q is %d, which reads back as %d, %v", s, n, back, err)
		}
	})
}
