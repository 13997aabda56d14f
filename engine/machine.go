package engine

// Machine folds events into a state and answers with commands (DESIGN §2).
//
// Implementations are deterministic: no I/O, clock, randomness or goroutine.
// The same events in the same order give the same commands and the same
// snapshot, byte for byte.
type Machine interface {
	// Handle folds one event. An error means a bug or a corrupt log, never a
	// model's nonsense: bad model output is an ordinary outcome.
	Handle(ev Event) ([]Command, error)
	// Snapshot returns the state as canonical JSON; the state digest is its
	// SHA-256. Texts appear by reference once the runtime has sealed them.
	Snapshot() ([]byte, error)
	// Restore replaces the state by an earlier snapshot of the same Version.
	Restore(snapshot []byte) error
	// Version is name@n; n grows when old events would fold to another state.
	Version() string
}

// Upgrader is implemented by machines that can take over a room from a machine
// of another version (a planner@3 that goes on where planner@2 stood). The rows
// that the other version folded stay as they are.
type Upgrader interface {
	// Upgrade returns the snapshot of this machine's own Version that stands for
	// a snapshot of the named version; it is restored next. It is as
	// deterministic as Handle, and a room may be upgraded from the same snapshot
	// more than once. An error means that there is no way from that version.
	Upgrade(version string, snapshot []byte) ([]byte, error)
}

// TextHolder is implemented by machines whose rules read the content of texts
// that their state keeps by reference. After Restore, and before the next
// Handle, the caller loads every text listed (a content that is absent stays
// unloaded; Handle then errs where it is needed).
type TextHolder interface {
	Texts() []*Text
}
