package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pageCommand is a command line of qualify that a page shows.
type pageCommand struct {
	line  int      // of the page
	words []string // behind the name of the program
	whole bool     // it stands in a block, to be copied: its arguments are there too
	// or are the words behind each bar that follows: in the README's list other
	// commands of the same group, elsewhere a program that reads the output.
	or [][]string
}

// commandsOn finds the command lines in the blocks and in the code of a page. A
// block marked as text is what a command printed.
func commandsOn(text string) []pageCommand {
	var out []pageCommand
	fence, printed, joined, begin := false, false, "", 0
	prose := strings.Builder{}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fence, joined = !fence, ""
			printed = fence && strings.TrimSpace(line) == "```text"
			prose.WriteString("\n")
		case !fence:
			prose.WriteString(line + "\n")
		case printed:
			prose.WriteString("\n")
		default:
			prose.WriteString("\n")
			if joined == "" {
				begin = i + 1
			}
			if rest, more := strings.CutSuffix(line, `\`); more {
				joined += rest
				continue
			}
			out = append(out, commandsIn(joined+line, begin, true)...)
			joined = ""
		}
	}
	for _, at := range regexp.MustCompile("`[^`]+`").FindAllStringIndex(prose.String(), -1) {
		code := strings.ReplaceAll(prose.String()[at[0]+1:at[1]-1], "\n", " ")
		out = append(out, commandsIn(code, 1+strings.Count(prose.String()[:at[0]], "\n"), false)...)
	}
	return out
}

// commandsIn finds the commands of qualify in a line of shell.
func commandsIn(line string, n int, whole bool) []pageCommand {
	var out []pageCommand
	ours := false // the bar that comes next follows a command of qualify
	for _, part := range shellParts(line) {
		words := part.words
		if part.after != "|" {
			ours = false
		}
		for len(words) > 0 && (strings.Contains(words[0], "=") || slices.Contains([]string{"env", "time", "if", "then", "!"}, words[0])) {
			words = words[1:]
		}
		switch {
		case len(words) > 0 && (words[0] == "qualify" || words[0] == "bin/qualify"):
			out = append(out, pageCommand{line: n, words: words[1:], whole: whole})
			ours = true
		case ours && len(words) > 0:
			last := &out[len(out)-1]
			last.or = append(last.or, words)
		}
	}
	return out
}

// shellPart is a simple command of a line, and the operator before it.
type shellPart struct {
	after string
	words []string
}

// shellParts splits a line as far as pages need it: words, quotes, comments,
// operators, and redirections, which it leaves out.
func shellParts(line string) []shellPart {
	parts := []shellPart{{}}
	word, inWord, quote, skip := "", false, byte(0), false
	end := func() {
		last := &parts[len(parts)-1]
		if inWord && !skip {
			last.words = append(last.words, word)
		}
		if inWord {
			skip = false
		}
		word, inWord = "", false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word += string(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#' && !inWord:
			return parts
		case strings.IndexByte("|&;(){}", c) >= 0 && (c != '{' && c != '}' || !inWord):
			end()
			op := string(c)
			for i+1 < len(line) && line[i+1] == c {
				i, op = i+1, op+string(c)
			}
			parts = append(parts, shellPart{after: op})
		case c == '>' || c == '<':
			word, inWord = "", inWord && strings.Trim(word, "0123456789") != ""
			end()
			skip = true
		case c == ' ' || c == '\t':
			end()
		default:
			word, inWord = word+string(c), true
		}
	}
	end()
	return parts
}

// checkWords parses a command line as the command would, runs nothing, and
// returns the command. Values may be placeholders.
func checkWords(c pageCommand) (*cobra.Command, error) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	root := a.root()
	cmd, rest, err := root.Find(c.words)
	if err != nil {
		return nil, err
	}
	var bad *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	err = cmd.ParseFlags(rest)
	if err != nil && !errors.As(err, &bad) && (c.whole || !errors.As(err, &none)) {
		return nil, flagError(cmd, err)
	}
	args := cmd.Flags().Args()
	group := cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") // report has arguments of its own
	switch {
	case group && len(args) > 0:
		return nil, unknownCommand(cmd, args[0])
	case group && c.whole && cmd.Flags().NFlag() == 0:
		return nil, errors.New("a group of commands, not one of them")
	}
	if c.whole && bad == nil && len(c.or) == 0 {
		err = cmd.ValidateArgs(args)
	} else {
		err = nil
	}
	return cmd, err
}

// pages are the files that show commands to users.
func pages(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	names := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "SECURITY.md")}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md", "docs/qualification/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		must(t, err)
		names = append(names, more...)
	}
	return names
}

// TestCommandsInThePagesExist: each command that a page shows is one, with the
// flags it is shown with; one that is to be copied has its arguments too.
func TestCommandsInThePagesExist(t *testing.T) {
	t.Parallel()
	n := 0
	for _, name := range pages(t) {
		text, err := os.ReadFile(name)
		must(t, err)
		for _, c := range commandsOn(string(text)) {
			n++
			if _, err := checkWords(c); err != nil {
				t.Errorf("%s:%d: qualify %s: %v", name, c.line, strings.Join(c.words, " "), err)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d commands are found: the pages show more", n)
	}
}

// TestEveryCommandIsInTheReadme: the list there leaves none out.
func TestEveryCommandIsInTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	must(t, err)
	listed := map[string]bool{}
	for _, c := range commandsOn(string(text)) {
		if !c.whole {
			continue
		}
		cmd, err := checkWords(c)
		if err != nil {
			t.Errorf("line %d: %v", c.line, err)
			continue
		}
		listed[cmd.CommandPath()] = true
		for _, other := range c.or {
			sub, _, err := cmd.Parent().Find(other)
			if err != nil || sub == cmd.Parent() {
				t.Errorf("line %d: %s is no command beside %s (%v)", c.line, other, cmd.CommandPath(), err)
				continue
			}
			listed[sub.CommandPath()] = true
		}
	}
	var missing []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.HasSubCommands() && c.IsAvailableCommand() && !listed[c.CommandPath()] {
			missing = append(missing, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newApp(strings.NewReader(""), io.Discard, io.Discard).root())
	if len(missing) > 0 {
		t.Errorf("the list has no %s", strings.Join(missing, ", "))
	}
}

func TestCommandsOn_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	page := "Use `qualify gate --plan` and\n`qualify gate --nonsense`, not `quality gat`.\n\n" +
		"```sh\nbin/qualify freeze verify | show | nothing # qualify none\nqualify run c.yaml \\\n  --trials N > out.txt || echo \"exit $?\"\n" +
		"if qualify doctor --jsn; then qualify freez; fi\nX=1 qualify trace show\nqualify report demo | grep 'qualify x'\nqualify freeze\n```\n" +
		"```text\nnot tested (qualify gate gives one)\n```\n"
	var got []string
	for _, c := range commandsOn(page) {
		_, err := checkWords(c)
		text := "ok"
		if err != nil {
			text, _, _ = strings.Cut(err.Error(), " (see")
		}
		got = append(got, strings.Join(c.words, " ")+": "+text)
		for _, o := range c.or {
			got = append(got, "or "+strings.Join(o, " "))
		}
	}
	want := []string{
		"freeze verify: ok", "or show", "or nothing",
		"run c.yaml --trials N: ok",
		"doctor --jsn: doctor: unknown flag: --jsn; did you mean --json?",
		"freez: unknown command \"freez\" for qualify; did you mean freeze?",
		"trace show: trace show: missing FILE|TRIAL",
		"report demo: ok", "or grep qualify x",
		"freeze: a group of commands, not one of them",
		"gate --plan: ok", "gate --nonsense: gate: unknown flag: --nonsense",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Equal(shellParts(`a "b c" 2> d; e`)[0].words, []string{"a", "b c"}) {
		t.Error(shellParts(`a "b c" 2> d; e`))
	}
}
