package archive

import (
	"fmt"

	"github.com/agentrooms/qualify/engine/store"
)

// kindAllot is the kind of the row of the ledger that grants an allotment.
const kindAllot = "allot"

// grantsOf are the rows that granted allotments, in their order.
func grantsOf(ledger []store.LedgerRow) []store.LedgerRow {
	var out []store.LedgerRow
	for i := range ledger {
		if ledger[i].Kind == kindAllot {
			out = append(out, ledger[i])
		}
	}
	return out
}

// checkGrants says why the allotments are not those that the ledger grants, in
// its order; "" when they are. So who drew, and how much, stands in both.
func checkGrants(allotments []store.Allotment, ledger []store.LedgerRow) string {
	grants := grantsOf(ledger)
	for i := range min(len(grants), len(allotments)) {
		a, g := &allotments[i], &grants[i]
		if g.Ref != a.ID || g.Campaign != a.Campaign || g.Ceiling != a.Ceiling || g.Funds != a.Funds || g.DeltaHeld != a.Sum {
			return fmt.Sprintf("row %d of the ledger grants %s, %d micros on ceiling %s to campaign %s; the allotment is %s, %d micros on %s to %s",
				g.N, g.Ref, g.DeltaHeld, g.Ceiling, g.Campaign, a.ID, a.Sum, a.Ceiling, a.Campaign)
		}
	}
	if len(grants) != len(allotments) {
		return fmt.Sprintf("the ledger grants %d allotments, there are %d", len(grants), len(allotments))
	}
	return ""
}
