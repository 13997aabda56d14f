package docs_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const releasePage = "release-managers.md"

// releaseFolder is a repository as the page says that the team sets it up, with
// the six holdout families that a rule needs, an easy policy, and a qualify that says on its command line
// what the page says is to be said of a simulation.
func releaseFolder(t *testing.T, sh func(commands string) string) {
	t.Helper()
	real := strings.TrimSpace(sh("command -v qualify"))
	sh(`mkdir tools
cat > tools/qualify <<'END'
#!/bin/sh
case "$1 $2 $*" in
*--add-to*) exec ` + real + ` "$@" ;;
"attest sign "*) exec ` + real + ` "$@" --simulation ;;
"gate "*) exec ` + real + ` "$@" --allow-simulation ;;
esac
exec ` + real + ` "$@"
END
chmod +x tools/qualify
qualify init qualify --corpus cases
for n in 2 3; do
  for case in notices/notices-pool shed/shed-loans; do
    for in in qualify/cases qualify/cases/gold; do
      family=${case%/*}; new=$family$n/${case##*/}-0$n.yaml
      mkdir $in/$family$n
      sed -e "s/${case##*/}-01/${case##*/}-0$n/" -e "s/^family: $family/family: $family$n/" $in/$case-01.yaml > $in/$new
    done
  done
done
mkdir qualify/keys
qualify attest keygen -o alice.key && cp alice.key.pub qualify/keys/alice.pub
qualify attest keygen -o bob.key && cp bob.key.pub qualify/keys/bob.pub
printf 'dist:\n\tmkdir -p dist && cp Makefile dist/app.tar.gz\n.PHONY: dist\n' > Makefile
sed -i.orig 's/^name: first/name: app/' qualify/campaign.yaml
cat >> qualify/campaign.yaml <<'END'
policy: policy.yaml
freeze: {root: .., include: [dist]}
END
cat > qualify/policy.yaml <<'END'
schema: qualify/policy/v1
name: release
kind: simulation
alpha: 0.05
preconditions: [{id: freeze_verified}, {id: log_intact}, {id: holdout_opened_once}, {id: traces_verified}, {id: budget_proof}]
rules:
  - {id: some, step: safety, severity: required, metric: completion, arm: planner, comparison: absolute, limit: 0, bound: point, why: to see a PASS}
END`)
}

// TestQ8_TheReleasePageIsTrue runs the commands that release-managers.md gives to
// those who prepare a release, then those that it gives to the release manager:
// the release goes out, and another file does not.
func TestQ8_TheReleasePageIsTrue(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "make", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the page needs %s", tool)
		}
	}
	bin := buildQualify(t)
	steps, err := pageSteps(readPage(t, releasePage))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 3 {
		t.Fatalf("%d blocks of commands, want those of the manager, of the first and of the second signer", len(steps))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	try := func(commands string) (string, error) {
		return inShell(ctx, dir, commands, filepath.Join(dir, "tools"), bin)
	}
	sh := func(commands string) string {
		t.Helper()
		out, err := try(commands)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, commands, out)
		}
		return out
	}
	releaseFolder(t, sh)
	for _, s := range steps[1:] {
		sh(s.commands)
	}
	sh("rm -rf qualify/.qualify alice.key bob.key") // the manager has the repository
	if out := sh(steps[0].commands); !strings.Contains(out, "release: not blocked, by simulated evidence only") {
		t.Errorf("the last word is not that it may go out:\n%s", out)
	}
	sh("echo another >> dist/app.tar.gz")
	if out, err := try(steps[0].commands); err == nil || !strings.Contains(out, "app.tar.gz sha256:") || !strings.Contains(out, "is none of the subjects") {
		t.Errorf("another file: %v\n%s", err, out)
	}
}
