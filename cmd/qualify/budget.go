package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/store"
)

func (a *app) budgetCmd() *cobra.Command {
	return a.group("budget", "Ceilings of the store and every move on them", a.budgetShowCmd(), a.budgetGrantCmd(), a.budgetLedgerCmd(), a.budgetVerifyCmd())
}

// ceilingDoc is one ceiling as budget show --json gives it. Amounts are USD
// micros.
type ceilingDoc struct {
	Name      string   `json:"name"`
	Funds     string   `json:"funds"`
	Limit     int64    `json:"limit_micros"`
	Charged   int64    `json:"charged_micros"`
	Held      int64    `json:"held_micros"`
	Unknown   int64    `json:"unknown_micros"` // part of held that belongs to operations of unknown outcome
	Available int64    `json:"available_micros"`
	MaxSum    int64    `json:"max_sum_micros"` // greatest charged + held ever
	Halted    bool     `json:"halted"`
	Overruns  []string `json:"overruns"`
	Holds     bool     `json:"holds"` // the proof, over every ledger row
	Fault     string   `json:"fault,omitempty"`
}

func (a *app) budgetShowCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print limit, charged, held and available of each ceiling, with the proof over the ledger",
		Long: `Print each ceiling of the store. The proof walks every ledger row: the amounts
follow from the row before, and charged + held never pass the limit by more
than the overruns that are listed. Exit 1 when it fails.

held is reserved and may come back; unknown is the part of it that belongs to
calls whose outcome nobody knows. greatest sum is the most that charged + held
ever came to. The ceiling owner is for real models.`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withStore(c.Context(), func(s store.Store) error {
				docs, err := ceilings(c.Context(), s)
				if err != nil {
					return err
				}
				if asJSON {
					if err := a.printJSON(struct {
						Schema   schemaRef    `json:"schema"`
						Ceilings []ceilingDoc `json:"ceilings"`
					}{schemaRef{"qualify.budget", 1}, docs}); err != nil {
						return err
					}
				} else {
					a.printCeilings(docs)
				}
				for i := range docs {
					if !docs[i].Holds {
						return verdict(exitFail)
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// ceilings reads all ceilings with their proofs, in the store's order.
func ceilings(ctx context.Context, s store.Records) ([]ceilingDoc, error) {
	all, err := s.Ceilings(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.Ledger(ctx, 0, 0)
	if err != nil {
		return nil, err
	}
	kept, err := keptByCeiling(ctx, s)
	if err != nil {
		return nil, err
	}
	docs := []ceilingDoc{}
	for _, c := range all {
		proof := proveLedger(c, rows)
		docs = append(docs, ceilingDoc{
			Name: c.Name, Funds: string(c.Funds), Limit: c.Limit, Charged: c.Charged, Held: c.Held,
			Unknown: kept[accountOf{c.Name, c.Funds}], Available: c.Available(), MaxSum: c.MaxSum, Halted: c.Halted,
			Overruns: append([]string{}, c.Overruns...), Holds: proof == "", Fault: proof,
		})
	}
	return docs, nil
}

// accountOf names a ceiling: names are unique within one kind of funds.
type accountOf struct {
	name  string
	funds store.Funds
}

// keptByCeiling sums what released allotments still hold for operations of
// unknown outcome.
func keptByCeiling(ctx context.Context, s store.Records) (map[accountOf]int64, error) {
	all, err := s.Campaigns(ctx, "")
	if err != nil {
		return nil, err
	}
	kept := map[accountOf]int64{}
	for i := range all {
		as, err := s.Allotments(ctx, all[i].ID)
		if err != nil {
			return nil, err
		}
		for _, a := range as {
			kept[accountOf{a.Ceiling, a.Funds}] += a.Kept
		}
	}
	return kept, nil
}

// proveLedger walks the rows of one ceiling and returns "" if the budget holds:
// each row follows from the one before, charged + held pass the limit by no
// more than the overruns recorded so far, and the last row is the ceiling as
// it stands. Otherwise it names the first row that breaks the rule.
func proveLedger(c store.Ceiling, rows []store.LedgerRow) string {
	var prev store.LedgerRow
	var overruns, maxSum int64
	n := 0
	for _, r := range rows {
		if r.Ceiling != c.Name || r.Funds != c.Funds {
			continue
		}
		fault := func(format string, args ...any) string {
			return fmt.Sprintf("ledger row %d: ", r.N) + fmt.Sprintf(format, args...)
		}
		switch {
		case n == 0 && r.Kind != "ceiling":
			return fault("%s before the ceiling was opened", r.Kind)
		case n > 0 && r.Limit != prev.Limit && r.Kind != "grant":
			return fault("%s changed the limit", r.Kind)
		case r.Charged != prev.Charged+r.DeltaCharged || r.Held != prev.Held+r.DeltaHeld:
			return fault("charged and held do not follow from the row before")
		case r.Charged < 0 || r.Held < 0:
			return fault("a negative amount")
		}
		if r.Kind == "overrun" {
			overruns += r.DeltaCharged
		}
		if over := r.Charged + r.Held - r.Limit; over > overruns {
			return fault("charged + held pass the limit by %d micros, overruns explain %d", over, overruns)
		}
		prev, maxSum, n = r, max(maxSum, r.Charged+r.Held), n+1
	}
	switch {
	case n == 0:
		return "no ledger row"
	case prev.Limit != c.Limit || prev.Charged != c.Charged || prev.Held != c.Held:
		return "the last ledger row is not the ceiling as it stands"
	case maxSum != c.MaxSum:
		return "the greatest sum is not that of the ledger"
	}
	return ""
}

func (a *app) printCeilings(docs []ceilingDoc) {
	if len(docs) == 0 {
		a.printf("no ceiling yet; qualify run opens one\n")
		return
	}
	a.table("ceiling\tfunds\tlimit\tcharged\theld\tunknown\tavailable\tgreatest sum\tproof", func(row func(...string)) {
		for i := range docs {
			d := &docs[i]
			state := "holds"
			if !d.Holds {
				state = "FAILS: " + d.Fault
			}
			if d.Halted {
				state += ", halted by " + strings.Join(d.Overruns, ", ")
			}
			row(d.Name, d.Funds, usd(d.Limit), usd(d.Charged), usd(d.Held), usd(d.Unknown), usd(d.Available), usd(d.MaxSum), state)
		}
	})
}

// ledgerDoc is one ledger row as budget ledger --json gives it.
type ledgerDoc struct {
	N            int64  `json:"n"`
	Ceiling      string `json:"ceiling"`
	Funds        string `json:"funds"`
	Kind         string `json:"kind"`
	Ref          string `json:"ref,omitempty"`
	Campaign     string `json:"campaign,omitempty"`
	DeltaCharged int64  `json:"delta_charged_micros"`
	DeltaHeld    int64  `json:"delta_held_micros"`
	Limit        int64  `json:"limit_micros"`
	Charged      int64  `json:"charged_micros"`
	Held         int64  `json:"held_micros"`
}

func (a *app) budgetLedgerCmd() *cobra.Command {
	var asJSON bool
	var after int64
	var limit int
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Print the ledger, oldest row first",
		Args:  exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if after < 0 || limit < 0 {
				return usagef("--after %d --limit %d: neither may be negative", after, limit)
			}
			return a.withStore(c.Context(), func(s store.Store) error {
				rows, err := s.Ledger(c.Context(), after, limit)
				if err != nil {
					return err
				}
				if asJSON {
					docs := []ledgerDoc{}
					for _, r := range rows {
						docs = append(docs, ledgerDoc{
							r.N, r.Ceiling, string(r.Funds), r.Kind, r.Ref, r.Campaign,
							r.DeltaCharged, r.DeltaHeld, r.Limit, r.Charged, r.Held,
						})
					}
					return a.printJSON(struct {
						Schema schemaRef   `json:"schema"`
						Rows   []ledgerDoc `json:"rows"`
					}{schemaRef{"qualify.ledger", 1}, docs})
				}
				a.table("n\tceiling\tfunds\tkind\tcharged\theld\tlimit\tcharged after\theld after\tref", func(row func(...string)) {
					for _, r := range rows {
						row(strconv.FormatInt(r.N, 10), r.Ceiling, string(r.Funds), r.Kind, signedUSD(r.DeltaCharged), signedUSD(r.DeltaHeld),
							usd(r.Limit), usd(r.Charged), usd(r.Held), cmp.Or(r.Ref, "-"))
					}
				})
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().Int64Var(&after, "after", 0, "only rows after row `N`")
	c.Flags().IntVar(&limit, "limit", 0, "at most `N` rows (0: all)")
	return c
}

func usd(micros int64) string { return budget.FormatUSD(micros) }

// signedUSD is a change of an amount: a sign in front, "0" for none.
func signedUSD(micros int64) string {
	switch {
	case micros == 0:
		return "0"
	case micros > 0:
		return "+" + usd(micros)
	default:
		return usd(micros)
	}
}

// table prints tab-separated cells as aligned columns; cells cannot break the
// table or drive the terminal.
func (a *app) table(header string, rows func(row func(cells ...string))) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	// Writes end up in the buffered output, whose failures run reports.
	_, _ = fmt.Fprintln(w, header)
	rows(func(cells ...string) {
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	})
	_ = w.Flush()
}
