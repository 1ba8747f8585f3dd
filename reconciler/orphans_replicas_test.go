package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestOrphansAreDeletedByWhicheverReplicaIsAsked(t *testing.T) {
	t.Parallel()

	f := newFleet(t)
	one, two := f.start(nil), f.start(nil)
	kit.Until(t, "they know each other", func() bool { return len(one.member.Living()) == 2 && len(two.member.Living()) == 2 })
	ids := instances(6)
	for _, id := range ids {
		f.want(id, "", one, two)
	}
	f.settled(ids)
	backup := f.cloud.Copy()
	for _, id := range ids {
		if _, err := f.repo.Write(t.Context(), desired.Write{
			Instance: id, Dir: "instances/" + id, Subject: "end it", By: "Ann <ann@example.com>",
			Change: func(desired.Revision, desired.Files) (desired.Files, error) { return nil, nil },
		}); err != nil {
			t.Fatal(err)
		}
		one.recon.Moved(id)
		two.recon.Moved(id)
	}
	kit.Until(t, "all have ended", func() bool { return f.log.Counts().Instances == 0 && len(f.cloud.Instances()) == 0 })
	f.cloud.Restore(backup)

	for _, r := range []*replica{one, two} {
		found, err := r.recon.View().Orphans(t.Context())
		if err != nil || len(found.Orphans) == 0 {
			t.Fatalf("%+v, %v", found, err)
		}
		due := found.Orphans
		if r == one {
			due = slices.DeleteFunc(due, func(o reconciler.Orphan) bool { return !slices.Contains(ids[:3], o.Instance) })
		}
		if _, err := r.recon.DeleteOrphans(t.Context(), shown(due)); err != nil {
			t.Fatal(err)
		}
	}

	kit.Until(t, "nothing is left", func() bool { return len(f.cloud.Instances()) == 0 })
	kit.Until(t, "no instance is owned", func() bool { return one.recon.Owned()+two.recon.Owned() == 0 })
}

func TestOrphansOfAnInstanceAreDeletedByTheReplicaThatOwnsIt(t *testing.T) {
	t.Parallel()

	f := newFleet(t)
	one, two := f.start(nil), f.start(nil)
	kit.Until(t, "they know each other", func() bool { return len(one.member.Living()) == 2 && len(two.member.Living()) == 2 })
	ids := slices.DeleteFunc(instances(12), func(id string) bool { return !two.member.Mine(id) })[:1]
	f.want(ids[0], "", one, two)
	f.settled(ids)
	backup := f.cloud.Copy()
	f.commit(ids[0], "notInstantiated", "", one, two)
	kit.Until(t, "it has ended", func() bool { return len(f.cloud.Instances()) == 0 })
	f.settled(ids)
	f.cloud.Restore(backup)
	found, err := one.recon.View().Orphans(t.Context())
	if err != nil || len(found.Orphans) == 0 {
		t.Fatalf("%+v, %v", found, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = one.recon.DeleteOrphans(ctx, shown(found.Orphans))

	if !errors.Is(err, desired.ErrUnavailable) || !strings.Contains(err.Error(), two.member.Holder()) {
		t.Errorf("the other replica: %v", err)
	}
	if len(f.cloud.Instances()) == 0 {
		t.Error("it has deleted them nevertheless")
	}
	if _, err := two.recon.DeleteOrphans(t.Context(), shown(found.Orphans)); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "nothing is left", func() bool { return len(f.cloud.Instances()) == 0 })
}
