package budget

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// after fails the test unless the transition succeeded and gave want.
func after(t *testing.T, got Account, err error, want Account) Account {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("account (-want +got):\n%s", diff)
	}
	return got
}

// refused fails the test unless the transition failed with want and left the
// account as it was.
func refused(t *testing.T, before, got Account, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	if diff := cmp.Diff(before, got); diff != "" {
		t.Fatalf("a refused transition changed the account:\n%s", diff)
	}
}

func TestR36_ReserveUpToWhatIsAvailable(t *testing.T) {
	t.Parallel()
	a := Account{Limit: 1000, Charged: 600, Held: 300}
	for _, c := range []struct {
		r    int64
		want error
	}{{1, nil}, {99, nil}, {100, nil}, {101, ErrExhausted}, {math.MaxInt64, ErrExhausted}, {0, ErrAmount}, {-5, ErrAmount}} {
		got, err := a.Reserve(c.r)
		if c.want != nil {
			refused(t, a, got, err, c.want)
			continue
		}
		after(t, got, err, Account{Limit: 1000, Charged: 600, Held: 300 + c.r})
	}
	halted := Account{Limit: 10, Halted: true}
	got, err := halted.Reserve(1)
	refused(t, halted, got, err, ErrHalted)
}

func TestR37_SettlementReleasesAndChargesInOneStep(t *testing.T) {
	t.Parallel()
	a := Account{Limit: 1000, Charged: 10, Held: 300}
	got, err := a.Settle("op", 100, 70)
	after(t, got, err, Account{Limit: 1000, Charged: 80, Held: 200})
	got, err = a.Release(100)
	after(t, got, err, Account{Limit: 1000, Charged: 10, Held: 200})
	for _, bad := range [][2]int64{{301, 0}, {-1, 0}, {100, -1}} {
		got, err = a.Settle("op", bad[0], bad[1])
		refused(t, a, got, err, ErrAmount)
	}
}

func TestR38_BoundIsChargedAsAnyAmount(t *testing.T) {
	t.Parallel()
	got, err := Account{Limit: 1000, Held: 900}.Settle("op", 900, 900)
	after(t, got, err, Account{Limit: 1000, Charged: 900})
}

func TestR39_OverrunIsChargedInFullAndHalts(t *testing.T) {
	t.Parallel()
	a := Account{Limit: 130, Held: 100} // 30 left beside the reservation
	a, err := a.Settle("op1", 100, 140)
	a = after(t, a, err, Account{Limit: 130, Charged: 140, Halted: true, Overruns: []Overrun{{"op1", 40}}})
	if a.Available() != -10 {
		t.Fatalf("available %d, want -10", a.Available())
	}
	got, err := a.Reserve(1)
	refused(t, a, got, err, ErrHalted)

	b := Account{Limit: 500, Charged: 0, Held: 200}
	b, err = b.Settle("op1", 100, 150)
	b = after(t, b, err, Account{Limit: 500, Charged: 150, Held: 100, Halted: true, Overruns: []Overrun{{"op1", 50}}})
	b, err = b.Settle("op2", 100, 60) // a call already made settles
	b = after(t, b, err, Account{Limit: 500, Charged: 210, Halted: true, Overruns: []Overrun{{"op1", 50}}})
	got, err = b.Grant(900, nil) // more money does not acknowledge
	after(t, got, err, Account{Limit: 900, Charged: 210, Halted: true, Overruns: []Overrun{{"op1", 50}}})
	got, err = b.Grant(500, []string{"op1"})
	after(t, got, err, Account{Limit: 500, Charged: 210})
	got, err = b.Grant(500, []string{"op1", "op2"})
	refused(t, b, got, err, ErrNoOverrun)

	got, err = a.Grant(139, []string{"op1"}) // would leave available negative
	refused(t, a, got, err, ErrBelowSpent)
	got, err = a.Grant(140, []string{"op1"})
	after(t, got, err, Account{Limit: 140, Charged: 140})
}

func TestR39_EarlierOverrunsAreNotSharedBetweenValues(t *testing.T) {
	t.Parallel()
	a, err := Account{Limit: 100, Held: 30}.Settle("op1", 10, 11)
	if err != nil {
		t.Fatal(err)
	}
	b, errB := a.Settle("op2", 10, 12)
	c, errC := a.Settle("op3", 10, 13)
	if errB != nil || errC != nil {
		t.Fatal(errB, errC)
	}
	if diff := cmp.Diff([]Overrun{{"op1", 1}, {"op2", 2}}, b.Overruns); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]Overrun{{"op1", 1}, {"op3", 3}}, c.Overruns); diff != "" {
		t.Fatal(diff)
	}
}

func TestR40_GrantAddsExactlyTheDifference(t *testing.T) {
	t.Parallel()
	a := Account{Limit: 1000, Charged: 700, Held: 200}
	got, err := a.Grant(1500, nil)
	got = after(t, got, err, Account{Limit: 1500, Charged: 700, Held: 200})
	if got.Available() != 600 {
		t.Fatalf("available %d, want 600", got.Available())
	}
	got, err = a.Grant(900, nil)
	after(t, got, err, Account{Limit: 900, Charged: 700, Held: 200})
	got, err = a.Grant(899, nil)
	refused(t, a, got, err, ErrBelowSpent)
	got, err = a.Grant(-1, nil)
	refused(t, a, got, err, ErrAmount)
}

func TestR42_UnknownKeepsTheHold(t *testing.T) {
	t.Parallel()
	a := Account{Limit: 100, Held: 60}
	a, err := a.Hold(60)
	a = after(t, a, err, Account{Limit: 100, Held: 60, Unknown: 60})
	got, err := a.Reserve(41)
	refused(t, a, got, err, ErrExhausted)
	got, err = a.Release(1) // only proof resolves it
	refused(t, a, got, err, ErrAmount)
	got, err = a.Hold(1)
	refused(t, a, got, err, ErrAmount)
	got, err = a.Resolve("op", 60, 45)
	after(t, got, err, Account{Limit: 100, Charged: 45})
	got, err = a.Resolve("op", 60, 0)
	after(t, got, err, Account{Limit: 100})
	got, err = a.Resolve("op", 60, 101)
	after(t, got, err, Account{Limit: 100, Charged: 101, Halted: true, Overruns: []Overrun{{"op", 41}}})
	got, err = a.Resolve("op", 61, 0)
	refused(t, a, got, err, ErrAmount)
}

func TestNothingOverflows(t *testing.T) {
	t.Parallel()
	a := Account{Limit: math.MaxInt64, Charged: math.MaxInt64 - 10, Held: 10}
	got, err := a.Settle("op", 5, 6)
	refused(t, a, got, err, ErrOverflow)
	got, err = a.Settle("op", 10, math.MaxInt64)
	refused(t, a, got, err, ErrOverflow)
	got, err = a.Settle("op", 10, 10)
	after(t, got, err, Account{Limit: math.MaxInt64, Charged: math.MaxInt64})
	got, err = a.Reserve(1)
	refused(t, a, got, err, ErrExhausted)
}

func TestF1_TwoOfFourAreAdmitted(t *testing.T) {
	t.Parallel()
	limit, errL := ParseUSD("5")
	spent, errS := ParseUSD("4.752720")
	each, errE := ParseUSD("0.0884")
	if err := errors.Join(errL, errS, errE); err != nil {
		t.Fatal(err)
	}
	a, admitted := Account{Limit: limit, Charged: spent}, 0
	for range 4 {
		if b, err := a.Reserve(each); err == nil {
			a, admitted = b, admitted+1
		} else {
			refused(t, a, b, err, ErrExhausted)
		}
	}
	if got := FormatUSD(a.Charged + a.Held); admitted != 2 || got != "4.92952" {
		t.Fatalf("%d admitted, %s charged and held; want 2, 4.92952", admitted, got)
	}
}

func TestF3_CancelledReservationsAreGivenBack(t *testing.T) {
	t.Parallel()
	a := Account{Limit: 25 * MicrosPerUSD}
	const each = 5 * MicrosPerUSD / 2
	var err error
	for range 10 {
		if a, err = a.Reserve(each); err != nil {
			t.Fatal(err)
		}
	}
	got, err := a.Reserve(each)
	refused(t, a, got, err, ErrExhausted)
	for range 10 {
		if a, err = a.Release(each); err != nil {
			t.Fatal(err)
		}
	}
	got, err = a.Reserve(each)
	after(t, got, err, Account{Limit: 25 * MicrosPerUSD, Held: each})
}

// ledger is the naive second implementation: it keeps every call and adds up
// in big integers when asked.
type ledger struct {
	limit    *big.Int
	calls    []*call
	overruns map[string]bool
	reached  map[string]int // moves and refusals by rule
}

type call struct {
	id              string
	reserved        int64
	charged         int64
	open, uncertain bool
}

func (l *ledger) sum(f func(*call) int64) *big.Int {
	s := new(big.Int)
	for _, c := range l.calls {
		s.Add(s, big.NewInt(f(c)))
	}
	return s
}

func (l *ledger) charged() *big.Int { return l.sum(func(c *call) int64 { return c.charged }) }
func (l *ledger) held() *big.Int {
	return l.sum(func(c *call) int64 {
		if c.open {
			return c.reserved
		}
		return 0
	})
}

func (l *ledger) unknown() *big.Int {
	return l.sum(func(c *call) int64 {
		if c.uncertain {
			return c.reserved
		}
		return 0
	})
}

func (l *ledger) spent() *big.Int { return new(big.Int).Add(l.charged(), l.held()) }

// pick draws one of the open calls, certain or uncertain.
func (l *ledger) pick(t *rapid.T, uncertain bool) *call {
	var fit []*call
	for _, c := range l.calls {
		if c.open && c.uncertain == uncertain {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, "call")]
}

// TestR36_R37_R38_R39_R40_R42_AccountAgreesWithANaiveLedger plays random moves on
// the account and on the ledger. Every rule is reached, allowed and refused.
func TestR36_R37_R38_R39_R40_R42_AccountAgreesWithANaiveLedger(t *testing.T) {
	t.Parallel()
	reached := map[string]int{}
	defer func() {
		for _, rule := range []string{
			"R36 reserved", "R36 all of it", "R36 exhausted", "R36 no amount", "R37 settled", "R38 at the bound", "R39 overrun", "R39 halted",
			"R39 acknowledged", "R39 no such overrun", "R40 more", "R40 less", "R40 below what is spent", "R42 held", "R42 executed", "R42 not executed",
		} {
			t.Logf("%-24s %d", rule, reached[rule])
			if reached[rule] == 0 {
				t.Errorf("no history reached %s", rule)
			}
		}
	}()
	property := func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{50, math.MaxInt64}).Draw(t, "scale")
		amount := rapid.Int64Range(0, most)
		limit := amount.Draw(t, "limit")
		a := Account{Limit: limit}
		l := &ledger{limit: big.NewInt(limit), overruns: map[string]bool{}, reached: reached}
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			a = l.step(t, a, n, amount)
			for what, pair := range map[string][2]*big.Int{
				"limit": {l.limit, big.NewInt(a.Limit)}, "charged": {l.charged(), big.NewInt(a.Charged)},
				"held": {l.held(), big.NewInt(a.Held)}, "unknown": {l.unknown(), big.NewInt(a.Unknown)},
				"available": {new(big.Int).Sub(l.limit, l.spent()), big.NewInt(a.Available())},
			} {
				if pair[0].Cmp(pair[1]) != 0 {
					t.Fatalf("%s: ledger %s, account %s", what, pair[0], pair[1])
				}
			}
			if a.Halted != (len(l.overruns) > 0) || len(a.Overruns) != len(l.overruns) {
				t.Fatalf("halted %t with %v, ledger has %v", a.Halted, a.Overruns, l.overruns)
			}
		}
	}
	for range 20 {
		rapid.Check(t, property)
	}
}

func (l *ledger) reach(yes bool, rule string) {
	if yes {
		l.reached[rule]++
	}
}

// step draws one transition, judges it by the ledger and applies it to both.
func (l *ledger) step(t *rapid.T, a Account, n int, amount *rapid.Generator[int64]) Account {
	id := string(rune('A' + n))
	x := amount.Draw(t, "amount")
	var b Account
	var err error
	allowed, apply := false, func() {}
	switch rapid.IntRange(0, 4).Draw(t, "move") {
	case 0:
		if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
			x = max(a.Available(), 0)
		}
		b, err = a.Reserve(x)
		l.reach(err == nil, "R36 reserved")
		l.reach(err == nil && x == a.Available(), "R36 all of it")
		l.reach(errors.Is(err, ErrExhausted), "R36 exhausted")
		l.reach(errors.Is(err, ErrAmount), "R36 no amount")
		l.reach(errors.Is(err, ErrHalted), "R39 halted")
		allowed = len(l.overruns) == 0 && x > 0 && new(big.Int).Add(l.spent(), big.NewInt(x)).Cmp(l.limit) <= 0
		apply = func() { l.calls = append(l.calls, &call{id: id, reserved: x, open: true}) }
	case 1, 2:
		uncertain := rapid.Bool().Draw(t, "uncertain")
		c := l.pick(t, uncertain)
		if c == nil {
			return a
		}
		switch rapid.IntRange(0, 3).Draw(t, "cost") {
		case 0:
			x = c.reserved
		case 1:
			x = min(x, c.reserved)
		case 2:
			if uncertain {
				x = 0
			}
		}
		if uncertain {
			b, err = a.Resolve(c.id, c.reserved, x)
			l.reach(err == nil && x > 0, "R42 executed")
			l.reach(err == nil && x == 0, "R42 not executed")
		} else {
			b, err = a.Settle(c.id, c.reserved, x)
			l.reach(err == nil && x < c.reserved, "R37 settled")
			l.reach(err == nil && x == c.reserved, "R38 at the bound")
		}
		l.reach(err == nil && x > c.reserved, "R39 overrun")
		sum := l.spent()
		sum.Sub(sum, big.NewInt(c.reserved)).Add(sum, big.NewInt(x))
		allowed = sum.IsInt64()
		apply = func() {
			c.open, c.uncertain, c.charged = false, false, x
			if x > c.reserved {
				l.overruns[c.id] = true
			}
		}
	case 3:
		c := l.pick(t, false)
		if c == nil {
			return a
		}
		b, err = a.Hold(c.reserved)
		l.reach(err == nil, "R42 held")
		allowed, apply = true, func() { c.uncertain = true }
	case 4:
		var ack []string
		if len(a.Overruns) > 0 && rapid.Bool().Draw(t, "acknowledge") {
			ack = []string{a.Overruns[0].Ref}
		} else if rapid.IntRange(0, 5).Draw(t, "nobody's") == 0 {
			ack = []string{"nobody's"}
		}
		b, err = a.Grant(x, ack)
		known := len(ack) == 0 || l.overruns[ack[0]]
		allowed = big.NewInt(x).Cmp(l.spent()) >= 0 && known
		l.reach(err == nil && x > a.Limit, "R40 more")
		l.reach(err == nil && x < a.Limit, "R40 less")
		l.reach(err == nil && len(ack) > 0, "R39 acknowledged")
		l.reach(errors.Is(err, ErrNoOverrun), "R39 no such overrun")
		l.reach(errors.Is(err, ErrBelowSpent), "R40 below what is spent")
		apply = func() {
			l.limit = big.NewInt(x)
			for _, ref := range ack {
				delete(l.overruns, ref)
			}
		}
	}
	if allowed != (err == nil) {
		t.Fatalf("allowed %t, but error %v; account %+v, amount %d", allowed, err, a, x)
	}
	if err != nil {
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("a refused transition changed the account:\n%s", diff)
		}
		return a
	}
	apply()
	return b
}
