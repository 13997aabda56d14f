package archive_test

import (
	"errors"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// FuzzOpen opens archives of one room whose files are anything. Whatever is
// opened and read is exported again as it was.
func FuzzOpen(f *testing.F) {
	names := []string{"account.json", "bodies/a/b/0.jsonl", "campaign.json", "ledger.jsonl", "rooms/a/b/0.json", "seal-log.jsonl", "traces/a/b/0.jsonl", "trials.jsonl"}
	for _, withheld := range []bool{false, true} {
		st := memory.New(memory.Options{})
		ctx := f.Context()
		room := store.NewRoom{Room: sceneID + "/a/b/0", Salt: []byte("salt"), Funds: sim, Machine: "test@1"}
		c := event(panics{}, store.HeadOf(room), "e", "said")
		err := errors.Join(st.PutCampaign(ctx, campaign("c_before", "demo")), st.PutCampaign(ctx, campaign(sceneID, "demo")), st.CreateRoom(ctx, room),
			st.PutTrial(ctx, store.Trial{Campaign: sceneID, Key: "a/b/0", Arm: "b", Case: "a", Room: room.Room, Status: store.TrialRunning}),
			st.PutTrace(ctx, sceneID, "a/b/0", "d", []byte("trace\n")))
		must(st.Commit(ctx, c))(f, "commit")
		must(st.EnsureCeiling(ctx, "shared", sim, 100))(f, "ceiling")
		for _, id := range []string{"c_before", sceneID} {
			must(st.Allot(ctx, store.Allotment{ID: id, Ceiling: "shared", Funds: sim, Campaign: id, Sum: 10}))(f, "allot")
		}
		must(st.AppendSeal(ctx, "registered", []byte("{}")))(f, "seal")
		if err != nil {
			f.Fatal(err)
		}
		files := folder{}
		err = archive.Export(ctx, st, sceneID, archive.Options{WithholdBodies: withheld}, func(name string, content []byte) error {
			files[name] = content
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(files[names[0]], files[names[1]], files[names[2]], files[names[3]], files[names[4]], files[names[5]], files[names[6]], files[names[7]])
	}
	f.Fuzz(func(t *testing.T, a, b, c, d, e, g, h, i []byte) {
		files := folder{}
		for n, content := range [][]byte{a, b, c, d, e, g, h, i} {
			if content != nil && (len(content) > 0 || n != 1) { // bodies may be withheld
				files[names[n]] = content
			}
		}
		_ = unseen(t, "fuzz", files) // tells what is wrong itself
	})
}
