package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agentrooms/qualify/campaigns"
)

// process is one process as others on its host can look it up again.
type process struct {
	pid   int
	start string // start time in clock ticks since boot: tells a pid from its reuse
	host  string // hostname
	since string // UTC, for people
	boot  string // boot id and pid namespace: where the pid means something; "" when they are not known
}

// procfs is where the kernel tells about processes.
const procfs = "/proc"

// thisProcess describes the running process.
func thisProcess(proc string) process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := process{pid: os.Getpid(), host: host, since: time.Now().UTC().Format(time.RFC3339), boot: bootOf(proc)}
	start, _, ok := startOf(proc, p.pid)
	if !ok {
		p.boot = ""
	}
	p.start = start
	return p
}

// bootOf identifies the running kernel and the pid namespace; "" when the
// system does not tell.
func bootOf(proc string) string {
	id, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	ns, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	if err != nil {
		return ""
	}
	ns = strings.TrimSuffix(strings.TrimPrefix(ns, "pid:["), "]")
	return strings.TrimSpace(string(id)) + "/" + ns
}

// startOf reads a process's start time, and whether it is dead and merely not
// yet waited for. ok is false when there is no such process.
func startOf(proc string, pid int) (start string, dead, ok bool) {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", false, false
	}
	// The name, field 2, is in parentheses and may hold any character.
	_, rest, found := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return "", false, false
	}
	return fields[19], fields[0] == "Z" || fields[0] == "X", true
}

// name is how the process is named in a lease: for people, with what others
// need to look it up in brackets.
func (p process) name() string {
	s := fmt.Sprintf("pid %d on %s since %s", p.pid, p.host, p.since)
	if p.boot != "" {
		s += " [" + p.boot + " " + p.start + "]"
	}
	return s
}

var ownerRE = regexp.MustCompile(`^pid (\d+) on (.+) since (\S+) \[(\S+) (\d+)\]$`)

// parseOwner reads the name of a lease's owner; false when it cannot be looked
// up.
func parseOwner(name string) (process, bool) {
	m := ownerRE.FindStringSubmatch(name)
	if m == nil {
		return process{}, false
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, host: m[2], since: m[3], boot: m[4], start: m[5]}, true
}

// gone reports that the owner of a lease provably runs no more: it ran on this
// host, under this kernel and in this pid namespace, and its pid is free, dead
// or another process's now. Whatever cannot be proved is not gone.
func (p process) gone(proc, name string) bool {
	o, ok := parseOwner(name)
	if !ok || p.boot == "" || o.boot != p.boot || o.host != p.host {
		return false
	}
	if _, err := os.Stat(filepath.Join(proc, strconv.Itoa(p.pid))); err != nil {
		return false // this process is not seen there either: the view proves nothing
	}
	start, dead, ok := startOf(proc, o.pid)
	if !ok {
		_, err := os.Stat(filepath.Join(proc, strconv.Itoa(o.pid)))
		return os.IsNotExist(err)
	}
	return dead || start != o.start
}

// shownOwner is the part of a lease owner's name that is for people.
func shownOwner(name string) string {
	shown, _, _ := strings.Cut(name, " [")
	return shown
}

// envLeaseTTL shortens the lease in tests.
const envLeaseTTL = "QUALIFY_LEASE_TTL"

// campaignOwner is this process as the owner of a campaign.
func campaignOwner() (campaigns.Owner, error) {
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return campaigns.Owner{}, fmt.Errorf("lease token: %w", err)
	}
	var ttl time.Duration
	if s := os.Getenv(envLeaseTTL); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return campaigns.Owner{}, usagef("%s: %q is no duration", envLeaseTTL, s)
		}
		ttl = d
	}
	self := thisProcess(procfs)
	return campaigns.Owner{
		Token: hex.EncodeToString(token), Name: self.name(), TTL: ttl,
		Gone: func(name string) bool { return self.gone(procfs, name) },
	}, nil
}
