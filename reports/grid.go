package reports

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// lineWidth is how wide a table or a wrapped line gets, in characters: it fits
// a common terminal and a pasted review comment. A single column may be wider.
const lineWidth = 100

// row is one metric of every arm; without cells it heads a group of rows.
type row struct {
	name  string
	cells []string
}

func heading(name string) row { return row{name: name} }

// grid writes rows of metrics with one column per arm, as plain ASCII. Arms
// that do not fit beside each other go to a table of their own. Widths follow
// from the content alone, never from the terminal.
func grid(w io.Writer, corner string, columns []string, rows []row) error {
	first := width(corner)
	for _, r := range rows {
		first = max(first, width(r.name))
	}
	for from := 0; from < len(columns); {
		to, used := from, first+4 // borders and padding of the first column
		for to < len(columns) {
			used += columnWidth(columns[to], to, rows) + 3
			if used > lineWidth && to > from {
				break
			}
			to++
		}
		if err := table(w, corner, columns[from:to], rows, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

func width(s string) int { return utf8.RuneCountInString(s) }

func columnWidth(head string, i int, rows []row) int {
	n := width(head)
	for _, r := range rows {
		if len(r.cells) > 0 {
			n = max(n, width(r.cells[i]))
		}
	}
	return n
}

func table(w io.Writer, corner string, columns []string, rows []row, from, to int) error {
	t := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{Symbols: tw.NewSymbols(tw.StyleASCII)})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
	)
	t.Header(append([]string{corner}, columns...))
	for _, r := range rows {
		cells := make([]string, to-from)
		if len(r.cells) > 0 {
			copy(cells, r.cells[from:to])
		}
		if err := t.Append(append([]string{r.name}, cells...)); err != nil {
			return fmt.Errorf("table: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	return nil
}

// rowsOf builds the rows of metrics over arms.
func rowsOf[A any](arms []A, metrics []metric[A]) []row {
	rows := make([]row, 0, len(metrics))
	for _, m := range metrics {
		r := row{name: m.name}
		for i := range arms {
			if m.cell != nil {
				r.cells = append(r.cells, m.cell(&arms[i]))
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// metric is a row of a table; without cell it heads a group of rows.
type metric[A any] struct {
	name string
	cell func(*A) string
}

// wrap writes a line of words, going on indented where it would be longer than
// lineWidth; a longer word stands alone.
func wrap(b io.StringWriter, line string) {
	const indent = "  "
	used := 0
	for i, word := range strings.Fields(line) {
		switch {
		case i == 0:
		case used+1+width(word) > lineWidth:
			write(b, "\n"+indent)
			used = len(indent)
		default:
			write(b, " ")
			used++
		}
		write(b, word)
		used += width(word)
	}
	write(b, "\n")
}

// write ignores the error: the writers of this package are buffers, whose
// writes do not fail.
func write(b io.StringWriter, s string) { _, _ = b.WriteString(s) }
