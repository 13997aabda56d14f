package freeze

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// SchemaCache is the schema name of cache files.
const SchemaCache = "qualify/freeze-cache/v1"

// settled is how long before it is hashed a file must have been left alone to
// be kept: a write within the resolution of the file system's clock would not
// show in its times.
const settled = 2 * time.Second

// Cache remembers digests of files by size, times, device and inode. Whoever
// can write the cache can make it lie: it is no evidence (HashOptions.Cache).
// It is safe for several goroutines; a nil Cache keeps nothing.
type Cache struct {
	now  time.Time // when the present run began
	mu   sync.Mutex
	old  map[string]kept
	kept map[string]kept
}

// kept is one file of a cache.
type kept struct {
	Size   int64  `json:"size"`
	Mtime  int64  `json:"mtime"`
	Ctime  int64  `json:"ctime"`
	Dev    uint64 `json:"dev"`
	Ino    uint64 `json:"ino"`
	SHA256 string `json:"sha256"`
	LF     string `json:"lf,omitempty"`
}

type sums struct{ SHA256, LF string }

type cacheFile struct {
	Schema string          `json:"schema"`
	Files  map[string]kept `json:"files"`
}

// NewCache reads what Bytes wrote; nil data is an empty cache. Now is the time
// at which the run begins.
func NewCache(data []byte, now time.Time) (*Cache, error) {
	c := &Cache{now: now, old: map[string]kept{}, kept: map[string]kept{}}
	if data == nil {
		return c, nil
	}
	var f cacheFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("freeze cache: %w; delete it", err)
	}
	if f.Schema != SchemaCache {
		return nil, fmt.Errorf("freeze cache: schema is %q, this version reads %s; delete it", f.Schema, SchemaCache)
	}
	if f.Files != nil {
		c.old = f.Files
	}
	return c, nil
}

// Bytes is the cache of the files that were hashed or found unchanged.
func (c *Cache) Bytes() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Not canonical JSON, which has no exact form for device and inode numbers
	// beyond int64.
	return json.Marshal(cacheFile{SchemaCache, c.kept})
}

func (c *Cache) get(name string, s stat) (sums, bool) {
	if c == nil || !s.known {
		return sums{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.old[name]
	if !ok || k.Size != s.size || k.Mtime != s.mtime || k.Ctime != s.ctime || k.Dev != s.dev || k.Ino != s.ino {
		return sums{}, false
	}
	c.kept[name] = k
	return sums{k.SHA256, k.LF}, true
}

func (c *Cache) put(name string, s stat, sum sums) {
	if c == nil || !s.known || max(s.mtime, s.ctime) > c.now.Add(-settled).UnixNano() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[name] = kept{s.size, s.mtime, s.ctime, s.dev, s.ino, sum.SHA256, sum.LF}
}
