package reports

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSON writes a document, indented, with a final newline. Equal documents give
// equal bytes.
func JSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
