package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// RunMarkdown writes the run document as GitHub-flavoured Markdown, in one
// write. It begins with what bounds every figure below: verdict, evidence,
// corpus, model, prices and the proof of the budget (Q7). The same document
// gives the same bytes.
func RunMarkdown(w io.Writer, doc *evaluator.RunDocument) error {
	m := &markdown{doc: doc}
	m.head()
	m.arms("Arms", doc.Arms, "No arm took part in the comparison.")
	m.legend()
	if len(doc.Ablations) > 0 {
		m.arms("Ablations", doc.Ablations, "")
		m.line("\nAblations stand outside the triple, the comparison and the verdict.")
	}
	m.checks()
	m.deviations()
	m.ceiling()
	m.limits()
	m.findings()
	_, err := w.Write(m.b.Bytes())
	return wrapWrite(err)
}

type markdown struct {
	b   bytes.Buffer
	doc *evaluator.RunDocument
}

// line writes a line; format and arguments are Markdown already.
func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(&m.b, format+"\n", args...)
}

func (m *markdown) heading(text string) { m.line("\n## %s\n", text) }

func (m *markdown) head() {
	d := m.doc
	m.line("# Campaign %s\n", md(d.Campaign.Name))
	m.line("- **Verdict:** %s", md(d.Verdict))
	m.line("- **Evidence:** %s%s", md(d.Evidence), simulatedNote(d.Evidence))
	m.line("- **Campaign:** %s, %s", mdCode(d.Campaign.ID), md(d.Status))
	if d.Partial != nil {
		m.line("- **Partial:** %s", md(partial(d.Partial)))
	}
	m.line("- **Corpus:** split %s, %s, %s, %s each, %s", md(d.Corpus.Split), plural(d.Corpus.Families, "family", "families"),
		plural(d.Corpus.Cases, "case", "cases"), plural(d.Trials, "trial", "trials"), mdCode(d.Corpus.Digest))
	m.line("- **Model:** %s, seed %d", md(d.Model), d.Seed)
	m.line("- **Prices:** %s", mdCode(d.Prices))
	m.line("- **Freeze and holdout:** %s", md(runFreeze(d.Freeze)))
	m.line("- **Registration:** %s", registration(d.Campaign.Registration))
	m.line("- **Budget:** %s", budgetProof(d.Budget))
	for _, o := range d.Budget.Overruns {
		m.line("  - overrun, listed and not acknowledged: %s", md(o))
	}
	m.line("- **Traces:** %s", mdCode(d.TraceSetDigest))
	for _, w := range d.Warnings {
		m.line("- **Warning:** %s", md(w))
	}
}

func simulatedNote(evidence string) string {
	if evidence == evaluator.EvidenceSimulated {
		return "; says nothing about any real model"
	}
	return ""
}

func registration(digest string) string {
	if digest == "" {
		return "none"
	}
	return mdCode(digest)
}

// budgetProof is the account with its proof.
func budgetProof(g evaluator.Budget) string {
	sign, word := "≤", "holds at every ledger row"
	if g.Charged+g.Held > g.Limit {
		sign = ">"
	}
	if !g.Holds {
		word = "DOES NOT HOLD"
	}
	return md(fmt.Sprintf("charged %s + held %s %s limit %s (%s funds): %s; unknown %s; greatest sum %s",
		usd(g.Charged), usd(g.Held), sign, usd(g.Limit), g.Funds, word, usd(g.Unknown), usd(g.MaxSum)))
}

// arms writes the tables that have a column or a row per arm.
func (m *markdown) arms(title string, arms []evaluator.ArmSummary, none string) {
	m.heading(title)
	if len(arms) == 0 {
		m.line("%s", none)
		return
	}
	names := make([]string, 0, len(arms))
	for i := range arms {
		names = append(names, arms[i].Name)
	}
	at := func(heading string) int {
		return slices.IndexFunc(runMetrics, func(x armMetric) bool { return x.name == heading })
	}
	latency, cost := at(latencyHeading), at(costHeading)
	ran := row{name: "trials with a trace"}
	for i := range arms {
		ran.cells = append(ran.cells, fmt.Sprint(arms[i].Cost.N))
	}
	m.table("metric", names, append([]row{ran}, rowsOf(arms, runMetrics[:latency])...))

	m.line("\n### Claim and oracle\n")
	var square []row
	for i := range arms {
		d := arms[i].Denominators
		square = append(square, row{arms[i].Name, ints(d.ClaimedMet, d.ClaimedUnmet, d.UnclaimedMet, d.UnclaimedUnmet, d.N())})
	}
	m.table("arm", []string{"claimed, met", "claimed, unmet: false", "unclaimed, met: silent", "unclaimed, unmet: honest", "n"}, square)

	m.line("\n### Families\n")
	m.table("completion in", names, familyRows(arms))

	m.line("\n### Latency and cost\n")
	m.table("metric", names, slices.Concat([]row{ran}, rowsOf(arms, runMetrics[latency:cost]), rowsOf(arms, moreLatency),
		rowsOf(arms, runMetrics[cost:]), roleRows(arms)))

	m.line("\n### Denominators and terminations\n")
	rows := append(rowsOf(arms, runDenominators), heading("trials that ended by"))
	m.table("trials", names, append(rows, countRows(arms, func(a *evaluator.ArmSummary) map[string]int { return a.Termination })...))

	for i := range arms {
		for _, n := range arms[i].NotEvaluable {
			count := ""
			if n.Count > 0 {
				count = " (" + plural(n.Count, "trial", "trials") + ")"
			}
			m.line("\nNot evaluable, %s: %s: %s%s", md(arms[i].Name), md(n.Metric), md(n.Reason), count)
		}
	}
}

// legend explains the words of the tables, a paragraph per word.
func (m *markdown) legend() {
	for l := range strings.Lines(legend) {
		if !strings.HasPrefix(l, " ") {
			m.b.WriteString("\n")
		}
		m.line("> %s", md(strings.TrimSpace(l)))
	}
}

// moreLatency is what the terminal table has no room for.
var moreLatency = []armMetric{
	{"  p99", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return quantile(a.Latency.P99, a.Latency.P99AtLeast)
	}},
	{"  model time, summed", latencySum(func(l *evaluator.RunLatency) *int64 { return &l.ModelUS })},
	{"  tool time, summed", latencySum(func(l *evaluator.RunLatency) *int64 { return &l.ToolUS })},
	{"  queue time, summed", latencySum(func(l *evaluator.RunLatency) *int64 { return l.QueueUS })},
}

func latencySum(of func(*evaluator.RunLatency) *int64) func(*evaluator.ArmSummary) string {
	return func(a *evaluator.ArmSummary) string {
		if a.Latency == nil || of(a.Latency) == nil {
			return notEvaluable
		}
		return seconds(*of(a.Latency))
	}
}

// familyRows gives the completion of each family, a column per arm.
func familyRows(arms []evaluator.ArmSummary) []row {
	var names []string
	for i := range arms {
		for _, f := range arms[i].Families {
			names = append(names, f.Family)
		}
	}
	slices.Sort(names)
	var rows []row
	for _, name := range slices.Compact(names) {
		r := row{name: name}
		for i := range arms {
			at := slices.IndexFunc(arms[i].Families, func(f evaluator.ArmFamily) bool { return f.Family == name })
			if at < 0 {
				r.cells = append(r.cells, "-")
				continue
			}
			f := arms[i].Families[at]
			r.cells = append(r.cells, fmt.Sprintf("%s (%d/%d), %d false", places(f.Rate, 4), f.Met, f.N, f.False))
		}
		rows = append(rows, r)
	}
	return rows
}

// mostLinks bounds how many trace lines or triples one list names; the JSON
// document has all.
const mostLinks = 40

// findings lists the trace lines behind the counts.
func (m *markdown) findings() {
	m.heading("Findings in the traces")
	m.line("Links are case/arm/trial:line and resolve beside the folder of %s.\n", mdCode("qualify trace export --campaign "+m.doc.Campaign.ID+" -o traces"))
	found := false
	for _, a := range slices.Concat(m.doc.Arms, m.doc.Ablations) {
		if len(a.Links) > 0 {
			// A block of HTML knows no backslashes: only entities escape.
			m.line("<details><summary>%s</summary>\n", html.EscapeString(Clean(a.Name)))
		}
		for _, kind := range evaluator.LinkKinds() {
			links := a.Links[kind]
			if len(links) == 0 {
				continue
			}
			found = true
			var shown []string
			for _, l := range links[:min(len(links), mostLinks)] {
				shown = append(shown, traceLink(l))
			}
			m.line("- %s (%d in %s): %s%s", findingName(kind), len(links), plural(a.Cost.N, "trial", "trials"), strings.Join(shown, ", "), andMore(len(links)-len(shown)))
		}
		if len(a.Links) > 0 {
			m.line("\n</details>\n")
		}
	}
	if !found {
		m.line("None was counted in any arm.")
	}
}

func findingName(kind string) string {
	switch kind {
	case evaluator.LinkFalseCompletion:
		return "false completions"
	case evaluator.LinkDuplicateEffect:
		return "duplicate effects"
	case evaluator.LinkCollateralEffect:
		return "collateral effects"
	case evaluator.LinkCorrection:
		return "owner corrections"
	case evaluator.LinkRepeatedWork:
		return "repeated work"
	}
	return md(kind)
}

// checks writes what shows whether the harness itself can be trusted.
func (m *markdown) checks() {
	d := m.doc
	m.heading("Controls, oracle audit, faults")
	var rows []row
	for _, c := range d.Controls {
		rows = append(rows, row{c.Name, ints(c.Completed, c.Trials)})
	}
	if len(rows) == 0 {
		m.line("No control ran.")
	} else {
		m.table("control", []string{"completed", "trials"}, rows)
	}
	if len(d.OracleFaults) == 0 {
		m.line("\nNo case was completed by a control.")
	}
	for _, f := range d.OracleFaults {
		m.line("\nOracle fault: case %s, trial %d is completed by control %s.", md(f.Case), f.Trial, md(f.Control))
	}
	all := slices.Concat(d.Arms, d.Ablations)
	faults := countRows(all, func(a *evaluator.ArmSummary) map[string]int { return a.Faults })
	if len(faults) == 0 {
		m.line("\nNo planted fault fired.")
		return
	}
	names := make([]string, 0, len(all))
	ran := row{name: "trials with a trace"}
	for i := range all {
		names = append(names, all[i].Name)
		ran.cells = append(ran.cells, fmt.Sprint(all[i].Cost.N))
	}
	for i := range faults {
		faults[i].name = strings.TrimSpace(faults[i].name)
	}
	m.line("")
	m.table("faults fired", names, append(faults, ran))
}

// deviations writes what did not go as planned.
func (m *markdown) deviations() {
	d := m.doc
	m.heading("Deviations")
	if d.Campaign.Registration == "" {
		m.line("- no registration is recorded, so that deviations from one cannot be told")
	}
	held := holdoutDeviations(d.Freeze)
	for _, x := range held {
		m.line("- %s", x)
	}
	if d.Partial == nil {
		if len(held) == 0 {
			m.line("- none from the plan: every planned trial has a terminal record")
		}
		return
	}
	m.line("- %s", md(partial(d.Partial)))
	if n := len(d.DroppedTriples); n > 0 {
		m.line("- cut by a limit, not run in any arm (%d): %s", n, mdList(d.DroppedTriples))
	}
	if n := len(d.Partial.Open); n > 0 {
		m.line("- not complete yet, counted not run in every arm (%d): %s", n, mdList(d.Partial.Open))
	}
}

// holdoutDeviations tells in Markdown how the opening of a holdout departed from
// its freeze: results that are void, a holdout that others had opened, an end that
// nothing was verified behind.
func holdoutDeviations(f *evaluator.RunFreeze) []string {
	if f == nil {
		return nil
	}
	var out []string
	if f.Reopen != "" {
		out = append(out, "the holdout had been opened by another campaign, and was opened again: "+md(f.Reopen))
	}
	if n := len(f.Void); n > 0 {
		out = append(out, fmt.Sprintf("void, since what the freeze covers was changed (%d): %s", n, mdList(f.Void)))
	} else if !f.Verified {
		out = append(out, "the freeze was not verified behind the last trial")
	}
	return out
}

// ceiling lists the other campaigns, failed and diagnostic ones too, that drew
// on the same money.
func (m *markdown) ceiling() {
	m.heading("Other campaigns on the same ceiling")
	name := cmp.Or(m.doc.Budget.Ceiling, "none yet")
	if len(m.doc.SharedCeiling) == 0 {
		m.line("None: no other campaign of this store drew on ceiling %s.", md(name))
		return
	}
	m.line("Ceiling %s.\n", md(name))
	var rows []row
	for _, c := range m.doc.SharedCeiling {
		rows = append(rows, row{c.Name, []string{c.ID, c.Status, fmt.Sprint(c.Allotments), usd(c.Charged), usd(c.Held)}})
	}
	m.table("campaign", []string{"id", "status", "allotments", "charged", "held"}, rows)
}

// fewFamilies is the number of families below which a comparison by family is
// inconclusive (Q5).
const fewFamilies = 6

func (m *markdown) limits() {
	d := m.doc
	m.heading("Limits of use")
	if d.Evidence == evaluator.EvidenceSimulated {
		m.line("- Simulated evidence: the model is a program that spoils right answers at set rates. The figures show that the harness " +
			"works; they say nothing about any real model.")
	}
	m.line("- The figures hold for the cases, split, model, parameters and prices named at the top, and for nothing else.")
	m.line("- No gate has judged them: differences between arms are not tested in this report.")
	if d.Corpus.Families < fewFamilies {
		m.line("- %s: with fewer than %d no comparison by family can be conclusive.", plural(d.Corpus.Families, "family", "families"), fewFamilies)
	}
	if d.Partial != nil {
		m.line("- The campaign is not whole: no figure above is its result.")
	}
	m.line("- May differ between two runs of one campaign: %s. All else is byte-identical.", md(strings.Join(d.Outside, ", ")))
}

// table writes a Markdown table. Indentation of row names is kept; a row
// without cells heads a group.
func (m *markdown) table(corner string, columns []string, rows []row) {
	m.b.WriteString("| " + md(corner) + " |")
	for _, c := range columns {
		m.b.WriteString(" " + md(cell(c)) + " |")
	}
	m.b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, r := range rows {
		name := strings.TrimLeft(r.name, " ")
		depth := (len(r.name) - len(name)) / 2
		name = md(name)
		if len(r.cells) == 0 {
			name = "**" + name + "**"
		}
		m.b.WriteString("| " + strings.Repeat("&emsp;", depth) + name + " |")
		for i := range columns {
			text := ""
			if i < len(r.cells) {
				text = md(r.cells[i]) + " "
			}
			m.b.WriteString(" " + text + "|")
		}
		m.b.WriteByte('\n')
	}
}

// mdList lists ids, at most mostLinks of them.
func mdList(ids []string) string {
	out := make([]string, 0, len(ids))
	for _, id := range ids[:min(len(ids), mostLinks)] {
		out = append(out, md(id))
	}
	return strings.Join(out, ", ") + andMore(len(ids)-len(out))
}

// andMore says how many entries of a list only the JSON document has.
func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more, listed in the JSON report", n)
}

func ints(ns ...int) []string {
	out := make([]string, 0, len(ns))
	for _, n := range ns {
		out = append(out, fmt.Sprint(n))
	}
	return out
}
