package world_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
)

// room folds a hand-written log into an owner.
type room struct {
	*bench
	o   *world.Owner
	now int64
	rev int64
}

func newRoom(t *testing.T, owner string) *room {
	t.Helper()
	b := newBench(t, load(t, owner, ""))
	o, err := world.NewOwner(b.c, b.w)
	if err != nil {
		t.Fatal(err)
	}
	return &room{bench: b, o: o}
}

func (r *room) fold(ev engine.Event, commands ...engine.Command) {
	r.rev++
	ev.AtUS = r.now
	r.o.Fold(engine.LogEntry{Rev: r.rev, Event: ev, Commands: commands})
}

// at moves time to a second and folds an entry.
func (r *room) at(second int64, commands ...engine.Command) {
	r.now = second * 1_000_000
	r.fold(engine.Event{Kind: engine.EvModelReply}, commands...)
}

// next shows what the owner says next, "" for nothing.
func (r *room) next() string {
	s, ok := r.o.Next()
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s %s@%d", s.EventID, s.Message.Type, s.AtUS/1_000_000)
}

// hear delivers the next message.
func (r *room) hear() {
	r.t.Helper()
	s, ok := r.o.Next()
	if !ok {
		r.t.Fatal("the owner has nothing to say")
	}
	r.now = max(r.now, s.AtUS)
	m := s.Message
	r.fold(engine.Event{ID: s.EventID, Kind: engine.EvOwnerMessage, Message: &m})
}

func (r *room) want(want string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.next()); diff != "" {
		r.t.Error(diff)
	}
}

func claim() engine.Command {
	return engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: "x"}}
}

func withdraw() engine.Command {
	return engine.Command{Kind: engine.CmdWithdraw, Claim: &engine.Claim{By: "x"}}
}

func say(text string) engine.Command {
	return engine.Command{Kind: engine.CmdSay, Say: &engine.Say{From: "x", To: []string{"ana"}, Text: engine.Plain(text)}}
}

const corrector = `  think_seconds: 20
  messages: [{id: m1, text: Go.}, {id: m2, text: And this.}]
  corrections:
    - {id: k1, type: correction, text: Set it to 5., when: {after: claim, document: /items/plain/n, is_not: 5}, max: 2}
    - {id: k2, type: interrupt, text: Drop the bag., when: {after: claim, document: /items/c~0d, is: present}, max: 1}
  patience: 2`

func TestOwner_StartsWithItsMessagesInOrder(t *testing.T) {
	t.Parallel()
	r := newRoom(t, corrector)
	r.want("owner/m1 request@0")
	r.want("owner/m1 request@0") // asking consumes nothing
	r.hear()
	r.want("owner/m2 request@0")
	r.hear()
	r.want("")
}

func TestOwner_CorrectsAfterAClaimThatTheDocumentsBelie(t *testing.T) {
	t.Parallel()
	r := newRoom(t, corrector)
	r.hear()
	r.hear()
	r.at(100)
	r.want("")
	r.at(110, claim())
	r.want("owner/k1/1 correction@130")
	r.hear()
	r.want("owner/k2/1 interrupt@130")
}

func TestOwner_AWithdrawnClaimIsNone(t *testing.T) {
	t.Parallel()
	r := newRoom(t, corrector)
	r.hear()
	r.hear()
	r.at(100, claim(), withdraw())
	r.want("")
}

func TestOwner_DropsWhatHasBeenDoneMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRoom(t, corrector)
	r.hear()
	r.hear()
	r.at(100, claim())
	r.want("owner/k1/1 correction@120")
	r.do("set", `{"id":"plain","n":5}`, "")
	r.at(110)
	r.want("owner/k2/1 interrupt@120")
	r.do("drop", `{"id":"c~d"}`, "")
	r.at(111)
	r.want("")
	if r.o.Exhausted() {
		t.Error("nothing was corrected and patience is used up")
	}
}

func TestOwner_MaxAndPatience(t *testing.T) {
	t.Parallel()
	r := newRoom(t, corrector)
	r.hear()
	r.hear()
	r.do("drop", `{"id":"c~d"}`, "") // leaves k1 only, at most twice
	for i, want := range []string{"owner/k1/1 correction@120", "owner/k1/2 correction@220"} {
		r.at(int64(100*(i+1)), claim())
		r.want(want)
		r.hear()
	}
	r.at(300, claim())
	r.want("")
	if r.o.Exhausted() {
		t.Error("k1 had been said as often as it may: no correction was due")
	}
}

func TestOwner_CorrectionBeyondPatienceIsNotSent(t *testing.T) {
	t.Parallel()
	r := newRoom(t, corrector)
	r.hear()
	r.hear()
	r.at(100, claim())
	r.hear() // k1/1
	r.hear() // k2/1: patience 2 is used up
	if r.o.Exhausted() {
		t.Error("no further correction has come due yet")
	}
	r.at(200, claim())
	r.want("")
	if !r.o.Exhausted() {
		t.Error("a third correction came due: the owner has given up")
	}
}

func TestOwner_AnswersAQuestion(t *testing.T) {
	t.Parallel()
	r := newRoom(t, `  think_seconds: 5
  messages:
    - {id: m1, text: Go.}
    - {id: r1, type: reply, text: The red one., when: {after: message, contains: WHICH box}}`)
	r.hear()
	r.at(10, say("I am at it."))
	r.want("")
	r.at(20, say("Tell me, which box?"))
	r.want("owner/r1 reply@25")
	r.hear()
	r.at(40, say("Which box?"))
	r.want("") // said once
}

func TestOwner_ReadsMessagesThatToolsSendToIt(t *testing.T) {
	t.Parallel()
	r := newRoom(t, `  think_seconds: 5
  messages: [{id: m1, text: Go.}, {id: r1, type: reply, text: Yes., when: {after: message, contains: may i}}]`)
	r.hear()
	r.do("mail", `{"to":"bob","text":"May I?"}`, "")
	r.at(10)
	r.want("")
	r.do("mail", `{"to":"ana","text":"May I?"}`, "")
	r.at(20)
	r.want("owner/r1 reply@25")
}

func TestOwner_SpeaksByTime(t *testing.T) {
	t.Parallel()
	r := newRoom(t, `  think_seconds: 5
  messages:
    - {id: m1, text: Go.}
    - {id: m2, type: redirect, text: Halt., when: {after: time, seconds: 60}}
    - {id: m3, text: Nice., when: {after: time, seconds: 10, document: /items/plain/n, is: 5}}`)
	r.hear()
	r.want("owner/m2 redirect@60")
	r.do("set", `{"id":"plain","n":5}`, "")
	r.at(30)
	r.want("owner/m3 request@35")
	r.hear()
	r.want("owner/m2 redirect@60")
	r.hear()
	r.want("")
}

// The owner is a pure fold: the same log gives the same words, and a command
// that only one mode makes changes nothing.
func TestOwner_SeesNoPlanAndNoMode(t *testing.T) {
	t.Parallel()
	noise := []engine.Command{
		{Kind: engine.CmdNote, Note: &engine.Note{Kind: "plan", Body: engine.Plain("claim")}},
		{Kind: engine.CmdModel, Call: &engine.Call{Role: engine.RoleReviewer}},
		{Kind: engine.CmdArtifact, Artifact: &engine.Artifact{Name: "report"}},
	}
	var got [2][]string
	for i := range got {
		r := newRoom(t, corrector)
		r.hear()
		r.hear()
		for s := int64(100); s < 400; s += 100 {
			if i == 1 {
				r.at(s-50, noise...)
				r.at(s, append(noise, claim())...)
			} else {
				r.at(s - 50)
				r.at(s, claim())
			}
			got[i] = append(got[i], r.next())
			if r.next() != "" {
				r.hear()
			}
		}
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Error(diff)
	}
}
