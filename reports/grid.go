package reports

import (
	"fmt"
	"io"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// columnsAtOnce is how many arms stand side by side before a new table starts.
const columnsAtOnce = 5

// row is one metric of every arm.
type row struct {
	name  string
	cells []string
}

// grid writes rows of metrics with one column per arm, as plain ASCII. Widths
// follow from the content alone, never from the terminal.
func grid(w io.Writer, corner string, columns []string, rows []row) error {
	for from := 0; from < len(columns); from += columnsAtOnce {
		to := min(from+columnsAtOnce, len(columns))
		t := tablewriter.NewTable(w,
			tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{Symbols: tw.NewSymbols(tw.StyleASCII)})),
			tablewriter.WithHeaderAutoFormat(tw.Off),
			tablewriter.WithHeaderAlignment(tw.AlignLeft),
			tablewriter.WithRowAlignment(tw.AlignLeft),
			tablewriter.WithHeaderAutoWrap(tw.WrapNone),
			tablewriter.WithRowAutoWrap(tw.WrapNone),
		)
		t.Header(append([]string{corner}, columns[from:to]...))
		for _, r := range rows {
			if err := t.Append(append([]string{r.name}, r.cells[from:to]...)); err != nil {
				return fmt.Errorf("table: %w", err)
			}
		}
		if err := t.Render(); err != nil {
			return fmt.Errorf("table: %w", err)
		}
	}
	return nil
}

// rowsOf builds the rows of metrics over arms.
func rowsOf[A any](arms []A, metrics []metric[A]) []row {
	rows := make([]row, 0, len(metrics))
	for _, m := range metrics {
		r := row{name: m.name}
		for i := range arms {
			r.cells = append(r.cells, m.cell(&arms[i]))
		}
		rows = append(rows, r)
	}
	return rows
}

type metric[A any] struct {
	name string
	cell func(*A) string
}
