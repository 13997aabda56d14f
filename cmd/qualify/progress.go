package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/agentrooms/qualify/campaigns"
)

// progress shows on stderr how far a campaign is; nothing of it goes to stdout.
// update is never called concurrently. close ends the display and whatever
// runs for it, and leaves the cursor at the start of a line; it may be called
// at any time, and again.
type progress interface {
	update(campaigns.Progress)
	close()
}

// newProgress chooses the display: a bar for each arm on a terminal, lines
// everywhere else.
func newProgress(w io.Writer, env func(string) string, arms []campaigns.ArmProgress, now func() time.Time) progress {
	if f, ok := w.(*os.File); ok && len(arms) > 0 && isatty.IsTerminal(f.Fd()) && allowsBars(env) {
		return newBars(f, arms, now)
	}
	return &progressLines{w: w, last: -1}
}

// allowsBars is false where nobody watches, or where the terminal cannot move
// its cursor. NO_COLOR asks for nothing here: the bars have no colour.
func allowsBars(env func(string) string) bool {
	term, ci := env("TERM"), env("CI")
	return term != "" && term != "dumb" && (ci == "" || ci == "false" || ci == "0")
}

// armsOf are the arms of a plan with nothing done yet.
func armsOf(p *campaigns.Plan) []campaigns.ArmProgress {
	out := make([]campaigns.ArmProgress, 0, len(p.Arms))
	for _, a := range p.Arms {
		out = append(out, campaigns.ArmProgress{Name: a.Name, Planned: len(p.Cases) * p.Trials})
	}
	return out
}

// progressLines writes a plain line about every twentieth of the campaign.
type progressLines struct {
	w    io.Writer
	last int
}

func (l *progressLines) update(p campaigns.Progress) {
	step := 20 * p.Done / max(p.Planned, 1)
	if step == l.last && p.Done != p.Planned {
		return
	}
	l.last = step
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d trials", p.Done, p.Planned)
	for _, arm := range p.Arms {
		fmt.Fprintf(&b, "  %s %d/%d", arm.Name, arm.Done, arm.Planned)
	}
	fmt.Fprintf(&b, "  %s\n", spentText(&p))
	_, _ = io.WriteString(l.w, b.String()) // progress is talk; a closed stderr does not stop a campaign
}

func (*progressLines) close() {}

// spentText is the account that the campaign draws on, in USD.
func spentText(p *campaigns.Progress) string {
	return fmt.Sprintf("charged %s held %s of %s USD", usd(p.Ceiling.Charged), usd(p.Ceiling.Held), usd(p.Ceiling.Limit))
}

// progressBars draws a bar for each arm and, below them, the sum with money and
// time left.
type progressBars struct {
	box  *mpb.Progress
	arms map[string]*mpb.Bar
	sum  *mpb.Bar
	now  func() time.Time

	mu   sync.Mutex // guards what the drawing goroutine reads
	at   campaigns.Progress
	pace pace
}

func newBars(w *os.File, arms []campaigns.ArmProgress, now func() time.Time) *progressBars {
	b := &progressBars{box: mpb.New(mpb.WithOutput(w)), arms: map[string]*mpb.Bar{}, now: now}
	b.at.Arms = arms
	b.pace.add(now(), 0)
	for _, a := range arms {
		b.at.Planned += a.Planned
		b.arms[a.Name] = b.box.New(int64(a.Planned), mpb.BarStyle().Lbound("[").Filler("#").Tip("#").Padding(".").Rbound("]"),
			mpb.PrependDecorators(
				decor.Name(a.Name, decor.WCSyncSpaceR),
				decor.CountersNoUnit("%d/%d", decor.WCSyncSpace),
			),
		)
	}
	b.sum = b.box.New(int64(b.at.Planned), sumLine{b}, mpb.BarFillerTrim())
	return b
}

// sumLine draws the line under the bars, cut to the width of the terminal.
type sumLine struct{ bars *progressBars }

// Build implements mpb.BarFillerBuilder.
func (l sumLine) Build() mpb.BarFiller { return l }

// Fill implements mpb.BarFiller.
func (l sumLine) Fill(w io.Writer, s decor.Statistics) error {
	text := l.bars.sumText()
	_, err := io.WriteString(w, text[:min(len(text), max(s.AvailableWidth, 0))]) // ASCII
	return err
}

func (b *progressBars) sumText() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf("%d/%d trials  %s", b.at.Done, b.at.Planned, spentText(&b.at))
	if b.at.Done < b.at.Planned {
		text += "  ETA " + b.pace.text(b.now(), b.at.Planned-b.at.Done)
	}
	return text
}

func (b *progressBars) update(p campaigns.Progress) {
	b.mu.Lock()
	b.at = p
	b.pace.add(b.now(), p.Ran)
	b.mu.Unlock()
	for _, a := range p.Arms {
		if bar, ok := b.arms[a.Name]; ok {
			bar.SetCurrent(int64(a.Done))
		}
	}
	b.sum.SetCurrent(int64(p.Done))
}

func (b *progressBars) close() {
	for _, bar := range b.arms {
		bar.Abort(false) // nothing for a bar that is complete
	}
	b.sum.Abort(false)
	b.box.Wait()
}

// paceWindow is how far back the pace of trials is measured.
const paceWindow = time.Minute

// pace tells from the trials that this process ran of late how long the others
// will take. Trials taken from the store cost no time and do not count.
type pace struct {
	samples []paceSample // oldest first; the first may be older than the window
}

type paceSample struct {
	at  time.Time
	ran int
}

func (p *pace) add(at time.Time, ran int) {
	p.samples = append(p.samples, paceSample{at, ran})
	for len(p.samples) > 2 && at.Sub(p.samples[1].at) >= paceWindow {
		p.samples = p.samples[1:]
	}
}

// text is the time that left more trials take at the present pace.
func (p *pace) text(now time.Time, left int) string {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	ran, took := last.ran-first.ran, now.Sub(first.at)
	if ran <= 0 || took <= 0 {
		return "-"
	}
	return time.Duration(float64(took) / float64(ran) * float64(left)).Round(time.Second).String()
}
