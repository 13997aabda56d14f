#!/bin/sh
# The qualification of this project by its own commands, from a clean checkout to the
# page docs/qualification/DATE.md:
#
#   sh docs/qualification/qualify.sh [--out DIR] [--key FILE | --again DIR] [--keep DIR]
#   sh docs/qualification/qualify.sh --dry CORPUS [--qualify BINARY] [--out DIR] …
#
# It builds, runs the iterations on the dev cases, freezes, opens the holdout once,
# signs, bundles, verifies from the bundle alone, and writes page, bundle, envelope, public
# key and seal log into DIR (bin/qualification). One commit gives the same bytes on every
# machine of one platform with one version of Go; only the signature needs the key.
#
#   --key FILE       sign with this private key; without it a new one is made and thrown away
#   --again DIR      sign nothing: DIR holds envelope, public key and seal log of an earlier run.
#                    The envelope has to be about the verdict that comes out, and the seal log
#                    has to go on from the one that comes out
#   --keep DIR       work in DIR, a new folder, and leave it there
#   --dry CORPUS     the same chain on a substitute corpus, which must have dev and holdout
#                    cases; the built-in holdout stays closed. Takes the files as they are.
#   --qualify FILE   with --dry: this binary, not a new one
set -eu
umask 022
LC_ALL=C TZ=UTC
export LC_ALL TZ
unset QUALIFY_STORE QUALIFY_CRASH_AT QUALIFY_PROVIDER_JOURNAL QUALIFY_LEASE_TTL QUALIFY_CORPUS_KEY CDPATH

die() { printf 'qualify.sh: %s\n' "$1" >&2; exit 3; }
say() { printf '== %s\n' "$1" >&2; }
full() { case $1 in /*) printf '%s\n' "$1" ;; *) printf '%s/%s\n' "$PWD" "$1" ;; esac; }

out='' keep='' key='' again='' dry='' bin=''
while [ $# -gt 0 ]; do
	case $1 in
	--out | --keep | --key | --again | --dry | --qualify)
		[ $# -gt 1 ] && [ -n "$2" ] || die "$1 needs a value"
		value=$(full "$2")
		case $1 in
		--out) out=$value ;; --keep) keep=$value ;; --key) key=$value ;; --again) again=$value ;;
		--dry) dry=$value ;; --qualify) bin=$value ;;
		esac
		shift 2 ;;
	*) die "unknown argument $1; the first lines of this file say what there is" ;;
	esac
done
[ -z "$again" ] || [ -z "$key" ] || die '--key signs, --again signs nothing: give one or the other'
[ -z "$again" ] || [ -d "$again" ] || die "--again: $again is no folder"
[ -z "$key" ] || [ -f "$key.pub" ] || die "--key: $key.pub, the public half, is not there"
[ -z "$bin" ] || [ -n "$dry" ] || die '--qualify goes with --dry: a qualification builds what it qualifies'

root=$(cd "$(dirname "$0")/../.." && pwd)
out=${out:-$root/bin/qualification}
if [ -n "$keep" ]; then
	mkdir "$keep" || die "--keep: $keep must be a new folder"
	work=$keep
else
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM
fi
mkdir -p "$out" "$work/src"

# What is qualified: the commit, or for a dry run the files as they are.
if [ -z "$dry" ]; then
	[ -z "$(git -C "$root" status --porcelain)" ] || die 'the checkout has changes; commit them, or use --dry'
	commit=$(git -C "$root" rev-parse HEAD)
	SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
	git -C "$root" archive --format=tar HEAD | tar -xf - -C "$work/src"
	corpus=builtin
else
	commit='none, a dry run'
	SOURCE_DATE_EPOCH=1796000000
	(cd "$root" && tar -cf - --exclude=./.git --exclude=./bin --exclude=./.qualify .) | tar -xf - -C "$work/src"
	cp -R "$dry" "$work/src/docs/qualification/campaigns/dry-corpus"
	corpus=docs/qualification/campaigns/dry-corpus
	for f in "$work"/src/docs/qualification/campaigns/*.yaml; do
		sed -e 's/^corpus: builtin$/corpus: dry-corpus/' -e 's/^trials: .*/trials: 2/' "$f" > "$work/edited"
		mv "$work/edited" "$f"
	done
fi
export SOURCE_DATE_EPOCH
moment=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
date=${moment%T*}

cd "$work/src"
if [ -z "$bin" ]; then
	say 'build'
	bin=$work/bin/qualify
	CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOFLAGS='-trimpath -buildvcs=false' go build -o "$bin" ./cmd/qualify
fi
QUALIFY_STORE=sqlite:$work/q.db
export QUALIFY_STORE
q() { "$bin" "$@" 2>> "$work/talk"; }

# made CODES FILE COMMAND… writes what a command prints to a file of the work folder; its exit
# code must be one of CODES.
made() {
	codes=$1 file=$work/$2
	shift 2
	code=0
	q "$@" > "$file" || code=$?
	case " $codes " in
	*" $code "*) ;;
	*)
		tail -n 1 "$work/talk" >&2
		printf 'qualify.sh: qualify %s: exit %s\n' "$*" "$code" >&2
		exit 1 ;;
	esac
}

campaigns=docs/qualification/campaigns
policy=docs/qualification/policy.yaml
name() { sed -n 's/^name: //p' "$1"; }

made 0 version.txt version
made 0 lint.txt corpus lint --corpus "$corpus"

first=''
for f in "$campaigns"/[0-9]*.yaml; do
	n=$(name "$f")
	say "dev iteration $n"
	made 0 "run-$n.txt" run "$f"
	made '0 1 2' "gate-$n.txt" gate "$n" --corpus "$corpus"
	if [ -z "$first" ]; then
		first=$n
		made 0 "figures-$n.txt" report "$n" --corpus "$corpus"
	else
		made 0 "figures-$n.txt" compare "$first/planner" "$n/planner" --corpus "$corpus"
	fi
done

say 'freeze'
held=$campaigns/holdout.yaml
n=$(name "$held")
made 0 plan.txt gate "$held" --plan --policy "$policy"
made 0 freeze.txt freeze create "$held"
freeze=$(sed -n 's/^freeze  *//p' "$work/freeze.txt")

say "holdout, under $freeze"
made 0 run-holdout.txt run "$held" --freeze "$freeze"
made 0 campaigns.txt campaign list
made 0 money.txt budget show

envelope=$date.intoto.jsonl pub=$date.pub seal=$date.seal.jsonl bundle=$date.tar.zst
if [ -z "$again" ]; then
	say 'sign'
	if [ -z "$key" ]; then
		key=$work/throwaway
		made 0 keygen.txt attest keygen -o "$key"
	fi
	made 0 signed.txt attest sign "$n" --policy "$policy" --corpus "$corpus" --simulation --key "$key" -o "$out/$envelope"
	cp "$key.pub" "$out/$pub"
else
	say 'take over verdict and attestation from the seal log of the earlier run'
	for f in "$envelope" "$pub" "$seal"; do
		[ -f "$again/$f" ] || die "--again: $again/$f is not there"
	done
	cp "$again/$envelope" "$again/$pub" "$out/"
	sed '$d' "$again/$seal" > "$work/seal.jsonl" # the last row is of its bundling; ours follows
	made 0 refrozen.txt freeze create "$held" --seal-log "$work/seal.jsonl"
fi

say 'bundle'
made 0 bundled.txt report bundle "$n" --policy "$policy" --corpus "$corpus" -o "$out/$bundle"

say 'verify, from the bundle alone'
cd "$out"
QUALIFY_STORE=bundle:$bundle
export QUALIFY_STORE
made 0 verified.txt report verify "$bundle"
made 0 attested.txt attest verify "$envelope" "$bundle" --key "$pub" --at "$moment"
made '0 1 2' verdict.md gate "$n" --format markdown
made '0 1 2' verdict.txt gate "$n"
made 0 report.md report "$n" --format markdown
made 0 log.txt freeze log --export "$seal"
made 0 logverified.txt freeze log --verify
sum() { if command -v sha256sum > /dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
sum "$bundle" "$envelope" "$pub" "$seal" > "$work/sums.txt"

say 'page'
cd "$work"
code() { printf '```text\n'; cat "$@"; printf '```\n'; }
deeper() { sed -e '/^```/,/^```/b' -e 's/^#/###/' "$1"; }
said() { sed -n '/^#/!q;s/^# //p' "$1" | sed -E -e '/^(Hypothesis|Change|Decision): /!s/^/  /' -e 's/^(Hypothesis|Change|Decision): /- **\1:** /'; }
{
	if [ -z "$dry" ]; then
		printf '# Qualification of %s, %s\n\n' "$(sed -n 1p version.txt)" "$date"
	else
		printf '# Dry run of the qualification, on a substitute corpus\n\nThis page shows that the script works. It qualifies nothing.\n\n'
	fi
	cat <<-'TEXT'
		This page was written by `docs/qualification/qualify.sh`: words from that script and from the campaign files, everything else
		printed by the commands. Nothing was edited afterwards.

	TEXT
	printf -- '- **%s**\n' "$(sed -n 1p verdict.txt | sed 's/^v/V/')"
	printf -- '- **Commit:** `%s`\n' "$commit"
	printf -- '- **Build:** %s, `%s`\n' "$(sed -n 's/^built  *//p' version.txt)" "$(sed -n 's/^code  *//p' version.txt)"
	printf -- '- **Freeze:** `%s`\n' "$freeze"
	printf -- '- **Moment of all records:** %s. It is set, to that of the commit, so that the records come out the same each time.\n' "$moment"
	cat <<-'TEXT'

		## What this says, and what it does not

		The evidence is simulated. A program plays the model: it knows the right next step of each case and spoils it at set rates. So
		the figures say how the three modes, the engine below them, the money and the protocol behave when a model errs like that.
		They say nothing about any real model: not how often one errs, not how, and not which mode it would do better in. The rates
		and the price list are assumptions and not measurements.

		- **Few families.** What holds for the families of cases below need not hold for the next one. The plan before the holdout says
		  which rules cannot be sure to pass with so few: the best that can be expected of them is INCONCLUSIVE.
		- **Small rooms.** Two or three agents, a handful of tools, one request and its corrections. Nothing here is as long, as large
		  or as vague as real work.
		- **One author.** The cases and their gold were written by the authors of the planner, who knew its rules, and so was the simulated
		  model. No one else has judged whether they are fair to the other modes.
		- **One agent or many.** The legacy arm has the tools of all agents together and one conversation. Real rooms may not allow that.
		- **Chosen on dev.** The planner's options were chosen by the dev figures below, which are therefore no evidence for it. The holdout
		  figures are, within the bounds above.
	TEXT
	if [ -z "$dry" ]; then
		cat <<-'TEXT'

			### The holdout had been seen before

			The built-in holdout was opened by hand on 2026-11-30, 15:04 UTC, before this script was written: a trial of the commands with
			2 trials a case, 4 arms, the simulated model and seed 7. Seen were: 24 of 36 trials of the planner completed, 0.111 duplicate effects
			a trial, verdict FAIL. The simulated model also ran twice over the holdout cases while they were being written, to see that
			they can be solved. No mode, prompt, rate, rule or option was changed for any of it, and the seed here is another. But it
			is not what the protocol calls a holdout that nobody has seen, and the seal log of this run, which counts one opening,
			cannot show it. Whoever runs the script again opens it again, in a log of their own.

			This script first ran at commit 35cf120 of the same day, 18:37 UTC. Its second run, at the same commit, gave the same traces, figures,
			verdict, envelope and seal log, but another bundle: two rows of the ledger had changed places. That was mended (a triple now draws its
			money when it has a place to run in), nothing else was changed, and the script ran again at the commit above.
		TEXT
	fi
	printf '\n## Development\n\n'
	cat <<-'TEXT'
		All iterations ran on the dev cases, with one seed, under one ceiling of simulated money that the holdout shares: what failed was
		paid for too. They were tried on 2026-11-30 while this script was written, the decisions were taken from that, and they ran again here.
		Each was judged by `builtin:simulation`, which has the rules of the policy below and asks for no freeze.
	TEXT
	i=0
	for f in "$work/src/$campaigns"/[0-9]*.yaml; do
		i=$((i + 1))
		n=$(name "$f")
		printf '\n### Iteration %s: %s\n\n' "$i" "$n"
		said "$f"
		printf '\nResult:\n\n'
		sed '/^evidence: /,$d' "gate-$n.txt" | code
		printf '\n<details><summary>Figures</summary>\n\n'
		code "figures-$n.txt"
		printf '\n</details>\n'
	done
	printf '\n### Money\n\n'
	code campaigns.txt
	printf '\n'
	code money.txt
	printf '\n## Before the holdout\n\n'
	said "$work/src/$campaigns/holdout.yaml"
	printf '\nThe policy is [policy.yaml](policy.yaml). What each of its rules needs, and whether this design has it:\n\n'
	code plan.txt
	printf '\nThe audit of the corpus, and the freeze:\n\n'
	code lint.txt
	printf '\n'
	code freeze.txt
	printf '\n## Holdout\n\n'
	deeper report.md
	printf '\n## Verdict\n\n'
	deeper verdict.md
	printf '\n## Seal log\n\n'
	code log.txt
	printf '\n'
	code logverified.txt
	printf '\n## Bundle and attestation\n\n'
	cat <<-'TEXT'
		Verified without the store, from the files alone.

	TEXT
	code verified.txt
	printf '\n'
	code attested.txt
	printf '\n'
	code sums.txt
	printf '\n## How to reproduce it\n\n'
	checkout=${dry:+COMMIT}
	checkout=${checkout:-$commit}
	printf 'With Go %s on %s:\n\n' "$(sed -n 's/^built  *go\([^ ]*\) .*/\1/p' version.txt)" "$(sed -n 's/^built  *[^ ]* //p' version.txt)"
	cat <<-TEXT
		\`\`\`sh
		git checkout $checkout
		sh docs/qualification/qualify.sh --out /tmp/again --again DIR
		\`\`\`

		where \`DIR\` holds the envelope, the public key and the seal log of the sums above. \`/tmp/again\` then holds this page, the bundle and
		these files, byte for byte. The script fails where the envelope is not about the verdict that came out, and where the seal log is not
		the one that came out, with verdict and attestation behind it. On another platform, or with another version of Go, the binary
		differs, and with it the freeze and the names of the campaigns; the traces do not.
	TEXT
} > "$out/$date.md"
cat sums.txt
sum "$out/$date.md"
