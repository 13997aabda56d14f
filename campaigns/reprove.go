package campaigns

import "fmt"

// Reprove proves again, from a plan of this process or one that Reopen read,
// that the matched arms differ in nothing but what is under test (Q3), and that
// the record which was registered before the first trial said the same. The
// error names both values.
func (p *Plan) Reprove() (Matched, error) {
	m, err := p.prove()
	if err != nil {
		return m, err
	}
	again := *p
	if err := again.register(); err != nil {
		return m, err
	}
	if again.Registration != p.Registration {
		return m, fmt.Errorf("the registration is %s, this build registers %s for the same plan", p.Registration, again.Registration)
	}
	return m, nil
}
