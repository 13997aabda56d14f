package host

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// Store is what a service needs of a store; every store of this module has it.
type Store interface {
	store.Rooms
	runtime.Leases
}

// Config of a service.
type Config struct {
	Store Store
	Ports Ports
	// Process names this process to people who ask who has a room.
	Process string
	// Lease is how long this process has a room without renewing; zero means
	// 30 s. Calls are watched every third of it (R43).
	Lease time.Duration
	// Now is the clock of events; nil is the machine's. Leases go by the
	// store's own.
	Now func() time.Time
	// Events bounds the events that one Tick folds; zero means 1,000.
	Events int
	// SnapshotBytes is the least size of a tail that is worth a snapshot; see
	// runtime.Config.
	SnapshotBytes int64
	// Crash ends the process at a chosen point, for tests.
	Crash *runtime.Crash
}

// Service is the planner for any number of rooms, safe for concurrent use. It
// keeps nothing that is not in the store, starts no goroutine that outlives a
// call, and needs no closing.
type Service struct {
	cfg  Config
	mu   sync.Mutex
	wake map[string]chan struct{} // rooms that a Tick of this service has
}

// New makes a service. It opens, makes and migrates nothing. An error of code
// VALIDATION_ERROR names the port or the setting that is missing.
func New(cfg Config) (*Service, error) {
	for _, need := range []struct {
		what string
		have bool
	}{
		{"Store", cfg.Store != nil},
		{"Ports.Reasoner", cfg.Ports.Reasoner != nil},
		{"Ports.Executor", cfg.Ports.Executor != nil},
		{"Ports.Verifier", cfg.Ports.Verifier != nil},
		{"Ports.Authority", cfg.Ports.Authority != nil},
		{"Ports.Events", cfg.Ports.Events != nil},
		{"Ports.Notifier", cfg.Ports.Notifier != nil},
	} {
		if !need.have {
			return nil, engine.Errorf(engine.CodeValidation, "host: %s is not set", need.what)
		}
	}
	if cfg.Lease < 0 || cfg.Events < 0 {
		return nil, engine.Errorf(engine.CodeValidation, "host: lease %s, %d events a tick", cfg.Lease, cfg.Events)
	}
	return &Service{cfg: cfg, wake: map[string]chan struct{}{}}, nil
}

// maxName bounds the names of tenants and rooms, in bytes.
const maxName = 200

// id is the room's identity in the store; the tenant is part of it.
func (r Ref) id() (string, error) {
	if err := checkName("tenant", r.Tenant); err != nil {
		return "", err
	}
	if err := checkName("room", r.Room); err != nil {
		return "", err
	}
	return prefix(r.Tenant) + url.PathEscape(r.Room), nil
}

func checkName(what, name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return engine.Errorf(engine.CodeValidation, "the %s's name has %d bytes; it needs 1 to %d of valid UTF-8", what, len(name), maxName)
	}
	return nil
}

// maxID bounds the ids of messages, contributions and orders, in bytes: the
// room remembers them for ever.
const maxID = 1_000

// checkID refuses what would not come back from the store as the same id.
func checkID(what, id string) error {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) {
		return engine.Errorf(engine.CodeValidation, "%s has %d bytes for an id; it needs 1 to %d of valid UTF-8", what, len(id), maxID)
	}
	return nil
}

// prefix of the identities of a tenant's rooms.
func prefix(tenant string) string { return "planner/" + url.PathEscape(tenant) + "/" }

// Rooms lists the rooms of a tenant, sorted by their identity: those to tick
// when a program starts. Errors: those of the store.
func (s *Service) Rooms(ctx context.Context, tenant string) ([]string, error) {
	if err := checkName("tenant", tenant); err != nil {
		return nil, err
	}
	heads, err := s.cfg.Store.ListRooms(ctx, prefix(tenant))
	if err != nil {
		return nil, coded(fmt.Errorf("rooms of tenant %s: %w", tenant, err))
	}
	names := []string{}
	for i := range heads {
		name, err := url.PathUnescape(heads[i].Room[len(prefix(tenant)):])
		if err != nil {
			return nil, fmt.Errorf("room %s of the store: %w", heads[i].Room, err)
		}
		if heads[i].Rev >= 0 { // not one whose opening was cut short
			names = append(names, name)
		}
	}
	return names, nil
}

// Places of the index where a room's definition is kept.
const (
	spaceDefinition = "definition"
	keyDefinition   = "host"
)

// Open makes a room, or finds it made with the same definition. The planner is
// opt-in per room (R1): a room that was not opened is NOT_FOUND everywhere
// else. Errors: VALIDATION_ERROR names what is wrong with the definition;
// CONFLICT, the room exists with another one.
func (s *Service) Open(ctx context.Context, tenant, room string, d Definition) error {
	ref := Ref{tenant, room}
	id, err := ref.id()
	if err != nil {
		return err
	}
	// The room is told apart by what was asked for; what is built in may be
	// another text in another version of this package.
	given, err := engine.Canonical(d)
	if err != nil {
		return fmt.Errorf("room %s: definition: %w", room, err)
	}
	d = d.withDefaults()
	if err := d.validate(); err != nil {
		return fmt.Errorf("room %s: %w", room, err)
	}
	text, err := engine.Canonical(d)
	if err != nil {
		return fmt.Errorf("room %s: definition: %w", room, err)
	}
	in := runtime.Start(engine.Digest(given), store.IndexEntry{Space: spaceDefinition, Key: keyDefinition, Value: string(text)})
	_, err = runtime.Append(ctx, s.live(ref, id, d), in)
	return coded(err)
}

// room finds an opened room with its definition.
func (s *Service) room(ctx context.Context, tenant, room string) (Ref, runtime.Live, Definition, error) {
	ref := Ref{tenant, room}
	id, err := ref.id()
	if err != nil {
		return ref, runtime.Live{}, Definition{}, err
	}
	found, err := s.cfg.Store.Lookup(ctx, id, spaceDefinition, []string{keyDefinition})
	if errors.Is(err, store.ErrNotFound) || err == nil && found[keyDefinition] == "" {
		return ref, runtime.Live{}, Definition{}, engine.Errorf(engine.CodeNotFound, "tenant %q has no room %q; open it first", tenant, room)
	}
	if err != nil {
		return ref, runtime.Live{}, Definition{}, coded(fmt.Errorf("room %s: %w", room, err))
	}
	d, err := parseDefinition(found[keyDefinition])
	return ref, s.live(ref, id, d), d, err
}

// live is the runtime's view of a room.
func (s *Service) live(ref Ref, id string, d Definition) runtime.Live {
	l := runtime.Live{
		Config: runtime.Config{
			Folds: runtime.Folds{Name: id, Machine: d.machine},
			Store: s.cfg.Store, Room: id, Salt: []byte(runtime.FreshToken()), Funds: store.FundsReal,
			Provider: &provider{room: ref, ports: &s.cfg.Ports}, Clock: runtime.Wall,
			Limits: runtime.Limits{BudgetMicros: d.BudgetMicros}, SnapshotBytes: s.cfg.SnapshotBytes, Crash: s.cfg.Crash,
		},
		Authority: func(ctx context.Context) ([]string, error) { return s.cfg.Ports.Authority.Eligible(ctx, ref) },
		Always:    []string{d.Coordinator},
		Leases:    s.cfg.Store, Lease: s.cfg.Lease, Holder: s.cfg.Process, Now: s.cfg.Now, Events: s.cfg.Events,
	}
	if len(d.Tools) > 0 {
		l.World = func() (engine.World, error) { return catalogue(d.Tools), nil }
	}
	return l
}

// Tick works a room until it is at rest (R65). Any process may call it at any
// time; while one has the room, the others' report is Busy. It blocks while
// calls are under way. Calls go on when ctx ends, because a caller that goes
// away is no order of the owner's (R43): they are waited for, their receipts
// are stored, and ctx's error is returned.
//
// Nothing that a reasoner, specialist or verifier says is an error of Tick.
// Errors: NOT_FOUND; VERSION_MISMATCH, the room was folded by another version
// of the machine; those of the Authority and Reconciler ports and of the
// store, after which the next Tick goes on.
func (s *Service) Tick(ctx context.Context, tenant, room string) (runtime.Ticked, error) {
	ref, l, d, err := s.room(ctx, tenant, room)
	if err != nil {
		return runtime.Ticked{}, err
	}
	l.Notifier = &notifier{room: ref, ports: &s.cfg.Ports, owner: d.Owner, coordinator: d.Coordinator}
	wake, done := s.watch(l.Room)
	defer done()
	l.Wake = wake
	t, err := runtime.Tick(ctx, l)
	return t, coded(err)
}

// watch has appends of this service wake the Tick that begins, unless another
// one of this service has the room.
func (s *Service) watch(id string) (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.wake[id]; taken {
		return nil, func() {}
	}
	c := make(chan struct{}, 1)
	s.wake[id] = c
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wake, id)
	}
}

// nudge wakes the Tick that this service has on a room.
func (s *Service) nudge(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wake[id] <- struct{}{}: // a nil channel never takes
	default:
	}
}

// append commits one event from outside.
func (s *Service) append(ctx context.Context, l runtime.Live, in runtime.Intake) (runtime.Answer, error) {
	a, err := runtime.Append(ctx, l, in)
	if err != nil {
		return a, coded(err)
	}
	s.nudge(l.Room)
	return a, nil
}
