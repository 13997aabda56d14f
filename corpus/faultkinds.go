package corpus

// FaultKindsByID maps the ids of the case's faults to their kinds.
func (c *Case) FaultKindsByID() map[string]string {
	out := make(map[string]string, len(c.Faults))
	for _, f := range c.Faults {
		out[f.ID] = f.Kind
	}
	return out
}
