package attest

import (
	"bytes"
	"testing"
)

// FuzzParse: whatever Parse takes is exactly what Bytes gives back, and nothing
// it takes is signed by a key that did not sign.
func FuzzParse(f *testing.F) {
	k := signer(f, 1)
	good := fileOf(f, signed(f, claimOf(document(f)), k))
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"payload"`), []byte(`"Payload"`), 1))
	f.Add(good[:len(good)-1])
	f.Add([]byte("{\"payload\":\"\",\"payloadType\":\"\",\"signatures\":[]}\n{\"payload\":\"\",\"payloadType\":\"\",\"signatures\":[]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse(data)
		if err != nil {
			return
		}
		if again := fileOf(t, a); !bytes.Equal(again, data) {
			t.Errorf("read %q, written %q", data, again)
		}
		_, _ = a.Inspect() // must not panic
		if _, err := a.Verify(trust(k), clock); err == nil && !bytes.Equal(data, good) {
			t.Errorf("another file verifies: %q", data)
		}
	})
}
