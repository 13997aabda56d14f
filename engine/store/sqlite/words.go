package sqlite

// words keeps one copy of each text that many rows of a long list repeat.
type words map[string]string

func (w words) share(texts ...*string) {
	for _, t := range texts {
		if known, ok := w[*t]; ok {
			*t = known
		} else {
			w[*t] = *t
		}
	}
}
