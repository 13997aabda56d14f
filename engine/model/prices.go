package model

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/budget"
)

// ErrUnpriced means that the price table has no price for a model, or none
// for a category of tokens that was used. Such a call is refused before
// dispatch: no price is never a price of zero (R41).
var ErrUnpriced = errors.New("no price")

// Unpriced marks a rate that the table does not give.
const Unpriced int64 = -1

// Rates are prices in USD micros per million tokens. Zero is free, Unpriced
// is unknown.
type Rates struct {
	Input        int64 `json:"input"`
	CachedRead   int64 `json:"cached_read"`
	CacheWrite5m int64 `json:"cache_write_5m"`
	CacheWrite1h int64 `json:"cache_write_1h"`
	Output       int64 `json:"output"`
	Reasoning    int64 `json:"reasoning"`
}

// Tier replaces the rates of a whole call whose input side, cached and cache
// written tokens included, has strictly more than Above tokens. With Above
// 272,000 a call of 272,000 tokens is billed at the rates below the tier and
// one of 272,001 at the tier's (field report 4).
type Tier struct {
	Above int64 `json:"above"`
	Rates Rates `json:"rates"`
}

// Price is what one model costs. Tiers ascend by Above.
type Price struct {
	Rates Rates  `json:"rates"`
	Tiers []Tier `json:"tiers"`
}

// Prices is a price table by model name.
type Prices map[string]Price

// RatesText are rates as a campaign file writes them: decimal USD per million
// tokens, at most six places. An empty string is no price; in a tier it
// inherits the base rate.
type RatesText struct {
	Input        string `json:"input"          yaml:"input"`
	CachedRead   string `json:"cached_read"    yaml:"cached_read"`
	CacheWrite5m string `json:"cache_write_5m" yaml:"cache_write_5m"`
	CacheWrite1h string `json:"cache_write_1h" yaml:"cache_write_1h"`
	Output       string `json:"output"         yaml:"output"`
	Reasoning    string `json:"reasoning"      yaml:"reasoning"`
}

// TierText is a tier as a campaign file writes it.
type TierText struct {
	Above     int64 `json:"above" yaml:"above"`
	RatesText `yaml:",inline"`
}

// PriceText is one model's entry in a campaign file.
type PriceText struct {
	RatesText `yaml:",inline"`
	Tiers     []TierText `json:"tiers" yaml:"tiers"`
}

// ParsePrices reads a price table. Errors name the model and the field:
// malformed or negative amounts, no input or output price, tiers that do not
// ascend.
func ParsePrices(texts map[string]PriceText) (Prices, error) {
	prices := make(Prices, len(texts))
	for name, t := range texts {
		base, err := t.parse(Rates{Unpriced, Unpriced, Unpriced, Unpriced, Unpriced, Unpriced})
		if err != nil {
			return nil, fmt.Errorf("prices of %s: %w", name, err)
		}
		if base.Input == Unpriced || base.Output == Unpriced {
			return nil, fmt.Errorf("prices of %s: input and output are required", name)
		}
		p := Price{Rates: base, Tiers: []Tier{}}
		last := int64(0)
		for i, tt := range t.Tiers {
			if tt.Above <= last {
				return nil, fmt.Errorf("prices of %s: tiers[%d].above must be larger than %d", name, i, last)
			}
			last = tt.Above
			r, err := tt.parse(base)
			if err != nil {
				return nil, fmt.Errorf("prices of %s: tiers[%d]: %w", name, i, err)
			}
			p.Tiers = append(p.Tiers, Tier{Above: tt.Above, Rates: r})
		}
		prices[name] = p
	}
	return prices, nil
}

// parse reads the rates; fields left empty keep their value in r.
func (t RatesText) parse(r Rates) (Rates, error) {
	for _, f := range []struct {
		name, text string
		rate       *int64
	}{
		{"input", t.Input, &r.Input},
		{"cached_read", t.CachedRead, &r.CachedRead},
		{"cache_write_5m", t.CacheWrite5m, &r.CacheWrite5m},
		{"cache_write_1h", t.CacheWrite1h, &r.CacheWrite1h},
		{"output", t.Output, &r.Output},
		{"reasoning", t.Reasoning, &r.Reasoning},
	} {
		if f.text == "" {
			continue
		}
		n, err := budget.ParseUSD(f.text)
		if err != nil {
			return r, fmt.Errorf("%s: %w", f.name, err)
		}
		if n < 0 {
			return r, fmt.Errorf("%s: negative price %q", f.name, f.text)
		}
		*f.rate = n
	}
	return r, nil
}

// Canonical is the table as canonical JSON, rates as integers.
func (p Prices) Canonical() ([]byte, error) { return engine.Canonical(map[string]Price(p)) }

// Digest is "sha256:" and the digest of the canonical table.
func (p Prices) Digest() (string, error) {
	b, err := p.Canonical()
	if err != nil {
		return "", err
	}
	return "sha256:" + engine.Digest(b), nil
}

// InputTokens counts the input side of u: fresh, cached and cache written.
func InputTokens(u engine.Usage) int64 {
	return u.Input + u.CachedRead + u.CacheWrite5m + u.CacheWrite1h
}

// OutputTokens counts the output side of u, reasoning included.
func OutputTokens(u engine.Usage) int64 { return u.Output + u.Reasoning }

// Cost prices a usage in USD micros, each component rounded up. ErrUnpriced
// when the model, or a category with tokens, has no price; another error for
// negative counts or amounts beyond int64.
func (p Prices) Cost(model string, u engine.Usage) (int64, error) {
	price, ok := p[model]
	if !ok {
		return 0, fmt.Errorf("model %q: %w", model, ErrUnpriced)
	}
	rates := price.Rates
	for _, t := range price.Tiers {
		if InputTokens(u) > t.Above {
			rates = t.Rates
		}
	}
	var sum int64
	for _, c := range components(u, rates) {
		n, err := charge(c.tokens, c.rate)
		if err != nil {
			return 0, fmt.Errorf("model %q, %s: %w", model, c.name, err)
		}
		if sum += n; sum < 0 {
			return 0, fmt.Errorf("model %q: cost is out of range", model)
		}
	}
	return sum, nil
}

// Bound prices a bound (see Provider.Bound): no usage within it costs more.
// The whole input side is priced at the dearest category that may occur — the
// categories that are not zero in bound, and cached reads — the output side
// likewise, in the dearest tier that the call can reach, with one micro for
// each further component that Cost would round up.
func (p Prices) Bound(model string, bound engine.Usage) (int64, error) {
	price, ok := p[model]
	if !ok {
		return 0, fmt.Errorf("model %q: %w", model, ErrUnpriced)
	}
	worst, err := boundAt(bound, price.Rates)
	if err != nil {
		return 0, fmt.Errorf("model %q: %w", model, err)
	}
	for _, t := range price.Tiers {
		if InputTokens(bound) <= t.Above {
			continue
		}
		n, err := boundAt(bound, t.Rates)
		if err != nil {
			return 0, fmt.Errorf("model %q, tier above %d: %w", model, t.Above, err)
		}
		worst = max(worst, n)
	}
	return worst, nil
}

func boundAt(bound engine.Usage, rates Rates) (int64, error) {
	var sum int64
	parts := components(bound, rates)
	for _, side := range [][]component{parts[:4], parts[4:]} {
		var tokens, slack int64
		var dear []int64
		for _, c := range side {
			if c.tokens < 0 {
				return 0, fmt.Errorf("%s: negative number of tokens %d", c.name, c.tokens)
			}
			tokens += c.tokens
			switch {
			case c.tokens > 0 && c.rate == Unpriced:
				return 0, fmt.Errorf("%s: %w", c.name, ErrUnpriced)
			case c.tokens > 0, c.name == cachedRead && c.rate != Unpriced:
				dear = append(dear, c.rate)
				slack++
			}
		}
		if tokens == 0 {
			continue
		}
		n, err := charge(tokens, slices.Max(dear))
		if err != nil {
			return 0, err
		}
		if sum += n + slack - 1; sum < 0 {
			return 0, errors.New("bound is out of range")
		}
	}
	return sum, nil
}

const cachedRead = "cached_read"

type component struct {
	name         string
	tokens, rate int64
}

// components lists the input side (four entries), then the output side (two).
func components(u engine.Usage, r Rates) []component {
	return []component{
		{"input", u.Input, r.Input},
		{cachedRead, u.CachedRead, r.CachedRead},
		{"cache_write_5m", u.CacheWrite5m, r.CacheWrite5m},
		{"cache_write_1h", u.CacheWrite1h, r.CacheWrite1h},
		{"output", u.Output, r.Output},
		{"reasoning", u.Reasoning, r.Reasoning},
	}
}

// charge is tokens × rate / 1,000,000 rounded up.
func charge(tokens, rate int64) (int64, error) {
	const million = 1_000_000
	switch {
	case tokens < 0:
		return 0, fmt.Errorf("negative number of tokens %d", tokens)
	case tokens == 0:
		return 0, nil
	case rate == Unpriced:
		return 0, ErrUnpriced
	case rate < 0:
		return 0, fmt.Errorf("negative rate %d", rate)
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(rate))
	if hi >= million {
		return 0, errors.New("cost is out of range")
	}
	q, rem := bits.Div64(hi, lo, million)
	if rem > 0 {
		q++
	}
	if q > 1<<62 {
		return 0, errors.New("cost is out of range")
	}
	return int64(q), nil
}
