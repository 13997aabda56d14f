package campaigns

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
)

// TestQ5_ThePlanOfTheVerdictIsRegistered: what the file's policy needs stands in
// the registration, is part of the identity and survives reopening; a file that
// names no policy registers none and keeps its digests.
func TestQ5_ThePlanOfTheVerdictIsRegistered(t *testing.T) {
	t.Parallel()
	families := 29
	registered := RegisteredPolicy{
		Source: "p.yaml", Name: "p", Digest: "sha256:of-p", Rules: []RegisteredRule{{ID: "a", Families: &families, Has: 7}, {ID: "b", Has: 7}},
	}
	named := func(s string) string { return "policy: p.yaml\n" + s }
	reads := func(digest string) func(*ResolveInput) {
		return func(in *ResolveInput) {
			in.Policy = func(name string, p *Plan) (*RegisteredPolicy, error) {
				if name != "p.yaml" || len(p.Arms) != 4 || len(p.SelectedCases()) == 0 {
					t.Errorf("asked for %s of %d arms and %d cases", name, len(p.Arms), len(p.SelectedCases()))
				}
				out := registered
				out.Digest = digest
				return &out, nil
			}
		}
	}
	none, p, other := mustResolve(t, nil, reads("sha256:of-p")), mustResolve(t, named, reads("sha256:of-p")), mustResolve(t, named, reads("sha256:of-q"))
	if none.Policy != nil || bytes.Contains(none.Canonical, []byte("policy")) || bytes.Contains(none.registration, []byte("policy")) || none.PolicyDigest() != "" {
		t.Errorf("without a policy: %s", none.registration)
	}
	if !bytes.Contains(p.registration, []byte(`"policy":{"digest":"sha256:of-p"`)) || !bytes.Contains(p.registration, []byte(`"families":29`)) || p.PolicyDigest() != "sha256:of-p" {
		t.Errorf("registered: %s", p.registration)
	}
	if p.ID == none.ID || p.ID == other.ID || p.Registration == other.Registration {
		t.Errorf("ids %s, %s, %s", none.ID, p.ID, other.ID)
	}
	again := reopened(t, p)
	if diff := cmp.Diff(p.Policy, again.Policy); diff != "" {
		t.Error(diff)
	}
	if _, err := again.Reprove(); err != nil {
		t.Error(err)
	}
	again.Policy.Fits = true // what it was said to need, changed afterwards
	if _, err := again.Reprove(); err == nil || !strings.Contains(err.Error(), "registration") {
		t.Errorf("a changed plan is proven: %v", err)
	}
}

// TestPolicyOfAFile_Refusals name the policy.
func TestPolicyOfAFile_Refusals(t *testing.T) {
	t.Parallel()
	named := func(s string) string { return "policy: p.yaml\n" + s }
	for want, change := range map[string]func(*ResolveInput){
		"policy p.yaml: this program reads no policies": nil,
		"policy p.yaml: torn": func(in *ResolveInput) {
			in.Policy = func(string, *Plan) (*RegisteredPolicy, error) { return nil, errors.New("torn") }
		},
	} {
		if _, err := resolve(t, named, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestQ4_ASealedRegistrationIsFoundByItsDigest, and its record has that digest.
func TestQ4_ASealedRegistrationIsFoundByItsDigest(t *testing.T) {
	t.Parallel()
	p, s := mustResolve(t, nil, nil), memStore(t)
	if err := (&Runner{Plan: p, Store: s}).seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := s.SealLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if registeredBy(log, p.ID, p.Registration) == nil || registeredBy(log, p.ID, "sha256:0") != nil || registeredBy(log, "c_other", p.Registration) != nil || registeredBy(nil, p.ID, p.Registration) != nil {
		t.Errorf("%s", log[0].Body)
	}
	camp := store.Campaign{ID: p.ID, PlanDigest: p.PlanDigest, Registration: p.Registration}
	if err := CheckRegistered(log, camp); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*store.Campaign, *store.SealRow){
		"no registration of the campaign by": func(c *store.Campaign, _ *store.SealRow) { c.Registration = "sha256:0" },
		"and stored with sha256:0":           func(c *store.Campaign, _ *store.SealRow) { c.PlanDigest = "sha256:0" },
		"of its registration give c_": func(_ *store.Campaign, r *store.SealRow) {
			r.Body = bytes.Replace(r.Body, []byte(`"code":"`), []byte(`"code":"x`), 1)
		},
	} {
		c, rows := camp, slices.Clone(log)
		change(&c, &rows[0])
		if err := CheckRegistered(rows, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	log[0].Body = bytes.Replace(log[0].Body, []byte(`"seed":7`), []byte(`"seed":8`), 1)
	if registeredBy(log, p.ID, p.Registration) != nil {
		t.Error("a changed record is taken for the one that was registered")
	}
}
