package openstack_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/plan"
)

func TestAClosedDriverAsksItsVIMNothingMore(t *testing.T) {
	t.Parallel()

	cloud, other := fakeCloud(t), fakeCloud(t)
	d, err := openstack.New(cloud.VIM(), fast)
	if err != nil {
		t.Fatal(err)
	}
	src := source(uuid.NewString(), grouped, 1)
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	watch := make(chan error)
	go func() { watch <- d.Watch(t.Context(), func(string) {}) }()
	if _, err := d.Observe(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice is the same as once
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-watch; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
	// What had been sent when the driver was closed may reach the cloud just afterwards.
	still := connect(t, other.VIM(), fast)
	lookAgain := func() {
		t.Helper()
		for until := other.Requests("") + 50; other.Requests("") < until; {
			if _, err := still.Observe(t.Context(), want); err != nil {
				t.Fatal(err)
			}
		}
	}
	lookAgain()
	asked := cloud.Requests("")
	if asked == 0 {
		t.Fatal("the VIM wasn't asked while the driver was in use")
	}
	step := plan.Step{Action: plan.Apply, Object: want.Objects[0].Key}
	for what, do := range map[string]func() error{
		"Verify": func() error { return d.Verify(t.Context(), want, step) },
		"Do":     func() error { return d.Do(t.Context(), want, step) },
		"Observe": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := d.Observe(ctx, want)
			return err
		},
	} {
		if err := do(); !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("%s = %v, want that the VIM is unavailable", what, err)
		}
	}
	if err := d.Watch(t.Context(), func(string) {}); err != nil {
		t.Error(err)
	}
	// As long as another cloud is looked at some times, this one would have been, too.
	lookAgain()
	if n := cloud.Requests("") - asked; n != 0 {
		t.Errorf("%d requests came after the end", n)
	}
}
