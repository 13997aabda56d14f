package session

// Bounds of one turn. They hold for every mode alike.
const (
	// MaxModelCalls is the most model calls of one turn, retries and repairs
	// included. A turn that needs more is blocked with LIMIT_REACHED: a
	// conversation that circles must end before the room's money does.
	MaxModelCalls = 30
	// MaxRepairs is how often one turn may ask for a readable reply again.
	MaxRepairs = 2
	// MaxRetries is how many failed or lost model calls in a row are repeated,
	// each as a new operation with its own reservation.
	MaxRetries = 2
	// maxFeedback bounds repair feedback and quoted reasons, in bytes.
	maxFeedback = 300
)
