package archive

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode"

	"github.com/agentrooms/qualify/engine/store"
)

const (
	accountFile  = "account.json"
	bodiesDir    = "bodies/"
	campaignFile = "campaign.json"
	ledgerFile   = "ledger.jsonl"
	roomsDir     = "rooms/"
	sealFile     = "seal-log.jsonl"
	tracesDir    = "traces/"
	trialsFile   = "trials.jsonl"

	docExt   = ".json"
	linesExt = ".jsonl"
)

func bodiesName(key string) string { return bodiesDir + key + linesExt }
func roomName(key string) string   { return roomsDir + key + docExt }
func traceName(key string) string  { return tracesDir + key + linesExt }

// HasPlace reports whether a file of this name lies where Export puts files.
// Open looks at no other.
func HasPlace(name string) bool {
	switch name {
	case accountFile, campaignFile, ledgerFile, sealFile, trialsFile:
		return true
	}
	return strings.HasPrefix(name, bodiesDir) || strings.HasPrefix(name, roomsDir) || strings.HasPrefix(name, tracesDir)
}

// keyOf is the key in the name of a file of a folder.
func keyOf(name, dir, ext string) (string, bool) {
	rest, ok := strings.CutPrefix(name, dir)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, ext)
}

// roomID is the room of a trial.
func roomID(campaign, key string) string { return campaign + "/" + key }

// badKey says why a key cannot stand in the name of a file; "" when it can.
func badKey(key string) string {
	switch {
	case key == "." || !fs.ValidPath(key):
		return "is no clean relative path"
	case strings.ContainsRune(key, '\\') || strings.ContainsFunc(key, unicode.IsControl):
		return "has a backslash or a control character"
	}
	return ""
}

// damaged is the error of a file that is not what Export writes.
func damaged(name, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", name, fmt.Sprintf(format, args...), store.ErrCorrupt)
}
