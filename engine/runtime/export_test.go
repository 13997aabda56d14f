package runtime

import "context"

// Restart is what a process does with an open room before anything else: it
// loads the room and rebuilds its state. It returns how many rows it had to
// fold.
func Restart(ctx context.Context, cfg Config) (int, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return 0, err
	}
	l, err := cfg.Store.LoadTail(ctx, cfg.Room)
	if err != nil {
		return 0, err
	}
	r, _, err := restart(ctx, cfg.Folds, cfg.Store, l)
	if err != nil {
		return 0, err
	}
	return len(r.loaded.Rows), nil
}

// FoldsOf is what a snapshot would hold beside the machine, right after a
// restart.
func FoldsOf(ctx context.Context, cfg Config) ([]byte, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := cfg.Store.LoadTail(ctx, cfg.Room)
	if err != nil {
		return nil, err
	}
	r, _, err := restart(ctx, cfg.Folds, cfg.Store, l)
	if err != nil {
		return nil, err
	}
	return r.encodeFolds()
}
