package sol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

const (
	maxName        = 255
	maxDescription = 1024
)

// createInstance is POST vnf_instances (SOL003 clause 5.4.2.3.1).
func (a *api) createInstance(w http.ResponseWriter, r *http.Request) error {
	var req createVnfRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.VnfdID == "" {
		return rest.Problem(http.StatusBadRequest, "attribute \"vnfdId\" is missing")
	}
	if err := checkNames(req.Name, req.Description); err != nil {
		return err
	}
	if err := checkMapping(req.Metadata); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	scope, err := a.scope(ctx)
	if err != nil {
		return err
	}
	id := a.NewID()
	dir, err := scope.Folder(id)
	switch {
	case errors.Is(err, access.ErrHidden):
		return rest.Problem(http.StatusForbidden, "%v", err)
	case err != nil:
		return fmt.Errorf("%w (the instance would be %s; who may make instances in one project alone, which claims a folder that is no pattern, makes them there)", err, desired.APIDir(id))
	}
	pkg, err := a.View.Find(ctx, req.VnfdID)
	if err != nil {
		return fmt.Errorf("vnfdId %s: %w", req.VnfdID, err)
	}
	in, err := a.sealer(dir, desired.SecretNames{}.With(pkg.VNFD.SecretParams...)).seal(&desired.Instance{
		ID: id, Name: req.Name, Description: req.Description, VnfdID: req.VnfdID, Package: pkg.Tree,
		State: desired.NotInstantiated, Metadata: rest.Object(req.Metadata),
	}, nil)
	if err != nil {
		return fmt.Errorf("encrypt the credentials of the new instance: %w", err)
	}
	text, err := desired.Format(in)
	if err != nil {
		return fmt.Errorf("new instance: %w", err)
	}
	if in, err = desired.ParseInstance(dir+"/"+desired.InstanceFile, text); err != nil {
		return fmt.Errorf("new instance: %w", err)
	}
	if err := a.View.Check(ctx, nil, in); err != nil {
		return err
	}
	rev, err := a.Repo.Write(ctx, desired.Write{
		Instance: id, Dir: dir, Subject: "CREATE " + dir,
		Trailers: trailers("", desired.TypeCreate, rest.Caller(ctx).String()), By: Author(rest.Caller(ctx)),
		Change: func(at desired.Revision, _ desired.Files) (desired.Files, error) {
			if at.Tree != "" {
				return nil, fmt.Errorf("instance %s exists already", id)
			}
			return desired.Files{desired.InstanceFile: text}, nil
		},
	})
	if err != nil {
		var made bool
		if rev, made = a.Repo.Lookup(id); !made {
			return fmt.Errorf("commit the new instance: %w", err)
		}
	}

	// From here on the instance exists, and the client has to learn its id: an error would have it ask for another one.
	// What the store doesn't take now, the reconciler records as it does for an instance that was pushed.
	record := &lcm.Instance{ID: id, Operated: rev, Settled: rev}
	if err := a.Operations.Created(ctx, id, product(lcm.VNF{Name: in.Name, VnfdID: in.VnfdID}, pkg.VNFD), rev); err != nil {
		a.Log.WarnContext(ctx, "a new instance is recorded later", "instance", id, "error", err)
	} else if kept, err := a.Operations.Instance(ctx, id); err == nil {
		record = kept
	}
	a.Poke(id)
	k, ok := a.join(id, record)
	if !ok {
		return rest.Problem(http.StatusConflict, "VNF instance %s was created, and was removed again at once", id)
	}

	body, err := a.instanceBody(ctx, k, always)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.Link("vnf_instances", id))
	w.Header().Set("ETag", k.etag())
	return rest.Reply(w, r, http.StatusCreated, body)
}

func always(string) bool { return true }

func checkNames(name, description string) error {
	if n := utf8.RuneCountInString(name); n > maxName {
		return rest.Problem(http.StatusBadRequest, "vnfInstanceName has %d characters; at most %d are allowed", n, maxName)
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		return rest.Problem(http.StatusBadRequest, "vnfInstanceDescription has %d characters; at most %d are allowed", n, maxDescription)
	}
	return nil
}

// checkMapping checks metadata.VDU_VNFc_mapping, with which clients choose the ids
// of VNFCs: VDU id -> list of distinct ids.
func checkMapping(metadata map[string]any) error {
	m, ok := metadata["VDU_VNFc_mapping"]
	if !ok {
		return nil
	}
	vdus, ok := m.(map[string]any)
	if !ok {
		return rest.Problem(http.StatusBadRequest, "metadata.VDU_VNFc_mapping must map VDU ids to lists of ids")
	}
	seen := map[string]bool{}
	for _, vdu := range slices.Sorted(maps.Keys(vdus)) {
		ids, ok := vdus[vdu].([]any)
		if !ok {
			return rest.Problem(http.StatusBadRequest, "metadata.VDU_VNFc_mapping.%s must be a list of ids", vdu)
		}
		for _, e := range ids {
			id, ok := e.(string)
			if !ok || id == "" {
				return rest.Problem(http.StatusBadRequest, "metadata.VDU_VNFc_mapping.%s holds something that is no id", vdu)
			}
			if seen[id] {
				return rest.Problem(http.StatusBadRequest, "metadata.VDU_VNFc_mapping holds the id %q twice", id)
			}
			seen[id] = true
		}
	}
	return nil
}

// showInstance is GET vnf_instances/{id} (clause 5.4.3.3.2).
func (a *api) showInstance(w http.ResponseWriter, r *http.Request) error {
	k, err := a.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	body, err := a.instanceBody(r.Context(), k, always)
	if err != nil {
		return err
	}
	a.addWorkloads(r.Context(), k.id, body)
	w.Header().Set("ETag", k.etag())
	return rest.Reply(w, r, http.StatusOK, body)
}

// vduReses is the name, in instantiatedVnfInfo.metadata, of the objects that the VNFCs of each VDU
// belong to.
const vduReses = "vdu_reses"

// addWorkloads adds to an instance what lists don't show, as it is made anew for each.
func (a *api) addWorkloads(ctx context.Context, id string, v *VnfInstance) {
	if v.InstantiationState != stateInstantiated {
		return
	}
	workloads, err := a.View.Workloads(ctx, id)
	if err != nil {
		// The instance is shown all the same.
		a.Log.WarnContext(ctx, "workloads of an instance can't be rendered", "instance", id, "error", err)
		return
	}
	if len(workloads) > 0 {
		v.InstantiatedVnfInfo.Metadata[vduReses] = workloads
	}
}

// deleteInstance is DELETE vnf_instances/{id} (clause 5.4.3.3.5).
func (a *api) deleteInstance(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), writeTimeout)
	defer cancel()
	k, now, err := a.ready(ctx, r, false)
	if err != nil {
		return err
	}
	if desired.IsInstantiated(now.State) {
		return rest.Problem(http.StatusConflict, "VNF instance %s is INSTANTIATED: terminate it first", k.id)
	}
	if k.record.Open != "" {
		return rest.Problem(http.StatusConflict, "VNF instance %s has operation %s in FAILED_TEMP: fail it first", k.id, k.record.Open)
	}
	if desired.HasRemains(now) {
		if err := a.nothingRemains(ctx, k); err != nil {
			return err
		}
	}
	if err := a.View.Check(ctx, now, nil); err != nil {
		return err // others need it
	}
	_, err = a.Repo.Write(ctx, desired.Write{
		Instance: k.id, Dir: k.head.Dir, Subject: "DELETE " + k.head.Dir,
		Trailers: trailers("", "DELETE", rest.Caller(ctx).String()), By: Author(rest.Caller(ctx)),
		Change: func(at desired.Revision, _ desired.Files) (desired.Files, error) {
			if at.Tree != k.head.Tree {
				return nil, ErrMoved
			}
			return nil, nil
		},
	})
	if errors.Is(err, ErrMoved) {
		return rest.Problem(http.StatusConflict, "VNF instance %s was changed meanwhile: read it again and repeat the request", k.id)
	}
	if err != nil {
		return fmt.Errorf("commit the removal of instance %s: %w", k.id, err)
	}
	if err := a.Operations.Forget(ctx, k.id); err != nil {
		// The deletion is committed; the reconciler removes the record in its next pass.
		a.Log.WarnContext(ctx, "record of a deleted instance stays for now", "instance", k.id, "error", err)
	}
	a.Poke(k.id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// nothingRemains refuses to delete an instance whose objects are left of an operation that was set to FAILED: with the
// instance, what they belong to would be lost.
func (a *api) nothingRemains(ctx context.Context, k known) error {
	left, err := a.View.Remains(ctx, k.id)
	if err != nil {
		return rest.Problem(http.StatusConflict, "VNF instance %s is held after operation %s was set to FAILED, and whether objects of it are left can't be seen now: %v; terminate it, or ask again", k.id, k.head.Held, err)
	}
	if len(left) > 0 {
		return rest.Problem(http.StatusConflict, "VNF instance %s still has %s, which operation %s left when it was set to FAILED: terminate it first (POST …/vnf_instances/%s/terminate), or instantiate it again",
			k.id, some(left), k.head.Held, k.id)
	}

	return nil
}

// mostNamed is how many objects a message names.
const mostNamed = 10

// some names the objects, as many as a message has room for.
func some(keys []string) string {
	if n := len(keys) - mostNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(keys[:mostNamed], ", "), n)
	}
	return strings.Join(keys, ", ")
}
