package model_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

func table(t *testing.T) model.Prices {
	t.Helper()
	p, err := model.ParsePrices(map[string]model.PriceText{
		"m": {
			RatesText: model.RatesText{Input: "2.50", CachedRead: "1.25", CacheWrite5m: "3.125", CacheWrite1h: "5.00", Output: "10.00", Reasoning: "10.00"},
		},
		"tiered": {
			RatesText: model.RatesText{Input: "1", CachedRead: "0.1", Output: "4"},
			Tiers:     []model.TierText{{Above: 272_000, RatesText: model.RatesText{Input: "2", CachedRead: "0.2", Output: "6"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestR41_EachComponentIsRoundedUp(t *testing.T) {
	t.Parallel()
	p := table(t)
	for _, c := range []struct {
		name string
		u    engine.Usage
		want int64
	}{
		{"nothing", engine.Usage{}, 0},
		{"one token rounds up", engine.Usage{Input: 1}, 3},
		{"each component apart", engine.Usage{Input: 1, CachedRead: 1, CacheWrite5m: 1, CacheWrite1h: 1, Output: 1, Reasoning: 1}, 3 + 2 + 4 + 5 + 10 + 10},
		{"exact", engine.Usage{Input: 400, Output: 100}, 1000 + 1000},
		{"a million", engine.Usage{Input: 1_000_000, Output: 1_000_000}, 12_500_000},
	} {
		got, err := p.Cost("m", c.u)
		if err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}

func TestF4_TierAppliesStrictlyAboveItsThreshold(t *testing.T) {
	t.Parallel()
	p := table(t)
	for _, c := range []struct {
		name string
		u    engine.Usage
		want int64
	}{
		{"271,999", engine.Usage{Input: 271_999, Output: 10}, 271_999 + 40},
		{"272,000", engine.Usage{Input: 272_000, Output: 10}, 272_000 + 40},
		{"272,001: the whole call", engine.Usage{Input: 272_001, Output: 10}, 544_002 + 60},
		{"cached tokens count towards the tier", engine.Usage{Input: 1, CachedRead: 272_000, Output: 10}, 2 + 54_400 + 60},
	} {
		got, err := p.Cost("tiered", c.u)
		if err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}

func TestR41_WithoutPriceNothingIsFree(t *testing.T) {
	t.Parallel()
	p := table(t)
	for _, c := range []struct {
		name, model string
		u           engine.Usage
		unpriced    bool
	}{
		{"absent model", "other", engine.Usage{}, true},
		{"category without price", "tiered", engine.Usage{CacheWrite1h: 1}, true},
		{"reasoning without price", "tiered", engine.Usage{Reasoning: 1}, true},
		{"negative", "m", engine.Usage{Input: -1}, false},
		{"overflow", "m", engine.Usage{Input: math.MaxInt64}, false},
	} {
		if got, err := p.Cost(c.model, c.u); err == nil || errors.Is(err, model.ErrUnpriced) != c.unpriced {
			t.Errorf("%s: cost %d, %v", c.name, got, err)
		}
		if got, err := p.Bound(c.model, c.u); err == nil || errors.Is(err, model.ErrUnpriced) != c.unpriced {
			t.Errorf("%s: bound %d, %v", c.name, got, err)
		}
	}
}

func TestParsePricesRefuses(t *testing.T) {
	t.Parallel()
	ok := model.RatesText{Input: "1", Output: "1"}
	for _, c := range []struct {
		name string
		text model.PriceText
		want string
	}{
		{"no input price", model.PriceText{RatesText: model.RatesText{Output: "1"}}, "required"},
		{"seven decimals", model.PriceText{RatesText: model.RatesText{Input: "0.0000001", Output: "1"}}, "input"},
		{"negative", model.PriceText{RatesText: model.RatesText{Input: "1", Output: "-1"}}, "output"},
		{"tiers out of order", model.PriceText{RatesText: ok, Tiers: []model.TierText{{Above: 5}, {Above: 5}}}, "tiers[1]"},
		{"bad rate in tier", model.PriceText{RatesText: ok, Tiers: []model.TierText{{Above: 5, RatesText: model.RatesText{Input: "x"}}}}, "tiers[0]"},
	} {
		_, err := model.ParsePrices(map[string]model.PriceText{"m1": c.text})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "m1") {
			t.Errorf("%s: %v, want it to name m1 and %q", c.name, err, c.want)
		}
	}
}

func TestPricesDigestIsOfTheRates(t *testing.T) {
	t.Parallel()
	got, err := table(t).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"m":{"rates":{"cache_write_1h":5000000,"cache_write_5m":3125000,"cached_read":1250000,"input":2500000,"output":10000000,"reasoning":10000000},"tiers":[]},` +
		`"tiered":{"rates":{"cache_write_1h":-1,"cache_write_5m":-1,"cached_read":100000,"input":1000000,"output":4000000,"reasoning":-1},` +
		`"tiers":[{"above":272000,"rates":{"cache_write_1h":-1,"cache_write_5m":-1,"cached_read":200000,"input":2000000,"output":6000000,"reasoning":-1}}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	a, err := table(t).Digest()
	if err != nil {
		t.Fatal(err)
	}
	other := table(t)
	p := other["m"]
	p.Rates.Input++
	other["m"] = p
	b, err := other.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if a == b {
		t.Error("another rate gives the same digest")
	}
}

// No usage within a bound costs more than the bound, whatever the rates, the
// tiers and the split of the tokens over the categories (R41).
func TestR41_BoundIsAnUpperBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 90_000_000))
		rates := func(label string) model.Rates {
			return model.Rates{
				Input: rate.Draw(t, label), CachedRead: rate.Draw(t, label), CacheWrite5m: rate.Draw(t, label),
				CacheWrite1h: rate.Draw(t, label), Output: rate.Draw(t, label), Reasoning: rate.Draw(t, label),
			}
		}
		price := model.Price{Rates: rates("base")}
		above := int64(0)
		for range rapid.IntRange(0, 2).Draw(t, "tiers") {
			above += rapid.Int64Range(1, 400).Draw(t, "above")
			price.Tiers = append(price.Tiers, model.Tier{Above: above, Rates: rates("tier")})
		}
		p := model.Prices{"m": price}
		n := rapid.Int64Range(0, 300)
		used := engine.Usage{Input: n.Draw(t, "in"), CachedRead: n.Draw(t, "cached"), Output: n.Draw(t, "out")}
		bound := engine.Usage{Input: used.Input + used.CachedRead + n.Draw(t, "more in"), Output: used.Output + n.Draw(t, "more out")}
		if rapid.Bool().Draw(t, "writes the cache") {
			used.CacheWrite1h = n.Draw(t, "written")
			bound.CacheWrite1h = used.CacheWrite1h + 1
		}
		if rapid.Bool().Draw(t, "reasons") {
			used.Reasoning = n.Draw(t, "reasoning")
			bound.Reasoning = used.Reasoning + 1
		}
		if bound.Input == 0 && used.Input+used.CachedRead > 0 {
			t.Skip("not within the bound")
		}
		cost, err := p.Cost("m", used)
		if err != nil {
			t.Fatal(err)
		}
		most, err := p.Bound("m", bound)
		if err != nil {
			t.Fatal(err)
		}
		if cost > most {
			t.Fatalf("usage %+v costs %d, its bound %+v only %d", used, cost, bound, most)
		}
	})
}
