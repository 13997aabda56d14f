package freeze

import (
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
)

// TestQ4_ARegistrationNamesItsPredecessorFromTheRowsBefore: one that is not
// there, comes later, has another name or is the campaign itself is a fault, and
// so are differences that cannot be.
func TestQ4_ARegistrationNamesItsPredecessorFromTheRowsBefore(t *testing.T) {
	t.Parallel()
	row := func(campaign, name, plan, predecessor string, differs ...string) entry {
		record := []byte(`{"name":"` + name + `","plan":"` + plan + `"}`)
		return entry{KindRegistration, RegistrationEntry{
			Campaign: campaign, Digest: "sha256:" + engine.Digest(record), Code: "v1", Predecessor: predecessor, Differs: differs, Record: record,
		}}
	}
	first := row("c_1", "demo", "sha256:1", "")
	for name, tc := range map[string]struct {
		entries []entry
		want    string // in the only fault; "" for none
	}{
		"the first":                   {[]entry{first}, ""},
		"one change":                  {[]entry{first, row("c_2", "demo", "sha256:2", "c_1", "seed")}, ""},
		"not the one just before":     {[]entry{first, row("c_2", "demo", "sha256:2", "c_1", "seed"), row("c_3", "demo", "sha256:3", "c_1", "cases", "seed")}, ""},
		"what differs is not known":   {[]entry{first, row("c_2", "demo", "sha256:2", "c_1")}, ""},
		"another code only":           {[]entry{first, row("c_2", "demo", "sha256:1", "c_1")}, ""},
		"none is named, as once":      {[]entry{first, row("c_2", "demo", "sha256:2", "")}, ""},
		"not there":                   {[]entry{first, row("c_2", "demo", "sha256:2", "c_0", "seed")}, "row 2: registration: campaign c_2 names the predecessor c_0, which is not registered before it"},
		"later":                       {[]entry{row("c_2", "demo", "sha256:2", "c_1", "seed"), first}, "row 1: registration: campaign c_2 names the predecessor c_1, which is not"},
		"itself":                      {[]entry{first, row("c_2", "demo", "sha256:2", "c_2", "seed")}, "row 2: registration: campaign c_2 names itself"},
		"another name":                {[]entry{first, row("c_2", "other", "sha256:2", "c_1", "name")}, `row 2: registration: campaign c_2 is named "other", its predecessor c_1 is named "demo"`},
		"differs and is the same":     {[]entry{first, row("c_2", "demo", "sha256:1", "c_1", "seed")}, "row 2: registration: campaign c_2 says to differ from its predecessor c_1, and has the same plan"},
		"differs from none":           {[]entry{first, row("c_2", "demo", "sha256:2", "", "seed")}, "row 2: registration: campaign c_2 says in what it differs, and from no campaign"},
		"a fault hides no follower":   {[]entry{first, row("c_2", "demo", "sha256:2", "c_0"), row("c_3", "demo", "sha256:3", "c_2")}, "row 2: "},
		"spelled with an empty list":  {[]entry{first, {KindRegistration, map[string]any{"campaign": "c_2", "code": "", "differs": []string{}, "digest": "sha256:" + engine.Digest([]byte("{}")), "record": map[string]string{}}}}, "row 2: registration: not in canonical form"},
		"an unknown field beside all": {[]entry{first, {KindRegistration, map[string]any{"campaign": "c_2", "code": "", "successor": "c_3", "digest": "", "record": map[string]string{}}}}, "unknown field"},
	} {
		switch v := VerifyLog(logOf(t, tc.entries)); {
		case tc.want == "" && len(v.Faults) > 0:
			t.Errorf("%s: faults %v, want none", name, v.Faults)
		case tc.want != "" && (len(v.Faults) != 1 || !strings.Contains(v.Faults[0].String(), tc.want)):
			t.Errorf("%s: faults %v, want %q", name, v.Faults, tc.want)
		}
	}
}
