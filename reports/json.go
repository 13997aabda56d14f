package reports

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/agentrooms/qualify/evaluator"
)

// ScoreJSON writes the score document, indented, with a final newline. Equal
// documents give equal bytes.
func ScoreJSON(w io.Writer, doc *evaluator.ScoreDocument) error { return writeJSON(w, doc) }

// RunJSON writes the run document, indented, with a final newline. Equal
// documents give equal bytes.
func RunJSON(w io.Writer, doc *evaluator.RunDocument) error { return writeJSON(w, doc) }

func writeJSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
