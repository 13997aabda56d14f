package planner

// Limits of the rules. They are constants because a change of any of them
// folds old events to another state.
const (
	// MaxSteps is the most steps of a plan (R8).
	MaxSteps = 16
	// MaxInterpretations is the most interpretations of one event, the first
	// included (R26, choice A2).
	MaxInterpretations = 3
	// MaxBarrenReplans is how many successor plans may be committed in a row
	// without a new task completing; the next need ends in needs_attention
	// (R35, choice A1).
	MaxBarrenReplans = 3
	// MaxFailedReports is how many report versions may be found unmet (R54).
	MaxFailedReports = 3
	// MaxReviewCalls is the most calls made for the verdict of one reviewer on
	// one report version, of which one may follow an invalid reply (R51).
	MaxReviewCalls = 3
	// MaxHandovers is how many times, after one owner message, participants
	// may start each other by reference.
	MaxHandovers = 16
	// MaxProposals is how many messages of participants may wait to be read.
	MaxProposals = 64
	// DefaultObjectives is how many objectives may be open at once.
	DefaultObjectives = 8

	maxIssues     = 8       // R27
	maxIssueText  = 300     // R27, characters
	maxIssueBytes = 2 << 10 // R27, all texts of one feedback together

	maxEnvelopeBytes = 64 << 10 // of a reply that is read at all
	maxKeyLen        = 64       // of a step key
	maxShownResult   = 2000     // bytes of a result shown as evidence
	maxPost          = 8000     // bytes of a coordinator's post
	maxShownMessages = 32       // owner messages kept and shown
	maxHistory       = 48       // superseded tasks kept as evidence: three versions of 16 steps
	maxPastHistory   = 16       // those of them whose objective has ended
	maxTalkCalls     = 64       // tool calls of one conversation kept as evidence
	maxTalkMessages  = 128      // of a conversation before its next turn starts a new one
	maxClosed        = 16       // terminal objectives whose end is remembered in the state
	maxTaskIDs       = 512      // task ids of one objective, IdentityObjective
	maxArtifacts     = 256      // artifact names of a room
)
