package ui

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Bounds on what the page of an instance lists.
const (
	mostUnits          = 500
	mostOperations     = 20
	mostListed         = 50 // of connections, networks, objects
	mostInstanceShown  = 10 * time.Second
	stateInstantiated  = "INSTANTIATED"
	operationsLookback = 30 * 24 * time.Hour
)

// instancePage is what the instance's template shows.
type instancePage struct {
	ID, Name, Dir, Description string
	Body                       *sol.VnfInstance
	// Intent is the instance at head, nil where its directory is gone.
	Intent *desired.Instance
	Head   desired.Head
	InHead bool
	// Marks say in a word each what matters.
	Marks   []badge
	Picture *picture
	Levels  []levelRow
	// Named are the instantiation levels of its flavour, ToLevel the button that leads to any level.
	Named       []vnfd.Level
	ToLevel     button
	Drift       *Drift
	Problems    []desired.Problem
	Connections []connectionRow
	Operations  []operationRow
	Open        *lcm.Operation
	// MayNot is why the caller may ask for nothing here, whatever its state; then no button is shown.
	MayNot       string
	Buttons      []button
	Choices      []Choice
	PackageError string
}

// badge is a word with a kind, which gives it its colour: good, bad, warn or plain.
type badge struct{ Kind, Text string }

// levelRow is a scaling aspect with its bounds.
type levelRow struct {
	Aspect, Name string
	// Level is the one that is brought about, Wanted the one at head.
	Level, Wanted, Max int
	Out, In            button
}

// connectionRow is a VIM that the instance runs at, or a network that it is connected to.
type connectionRow struct{ Kind, Name, What string }

// operationRow is an operation in a list.
type operationRow struct {
	ID        string
	Type      lcm.Type
	State     lcm.State
	Kind      string
	Automatic bool
	Started   time.Time
	Entered   time.Time
}

// button is something that a person may ask for. Why says why it can't be asked for now, "" where it
// can.
type button struct {
	Action, Text, Why string
	// Fields are sent beside those that a person fills in.
	Fields map[string]string
}

// showInstance is GET /ui/instances/{id}.
func (s *Service) showInstance(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), mostInstanceShown)
	defer cancel()
	p, err := s.instance(ctx, auth.From(ctx), r.PathValue("id"))
	if err != nil {
		return s.explained(err, "VNF instance", r.PathValue("id"))
	}
	return s.render(w, r, "instance", p)
}

func (s *Service) instance(ctx context.Context, who auth.Identity, id string) (*instancePage, error) {
	body, err := s.Lifecycle.Instance(ctx, who, id)
	if err != nil {
		return nil, err
	}
	p := &instancePage{ID: id, Body: body, Name: body.Name, Description: body.Description}
	p.Head, p.InHead = s.Repo.LookupHead(id)
	record, err := s.Operations.Instance(ctx, id)
	if err != nil {
		return nil, err
	}
	p.Dir = cmp.Or(p.Head.Dir, record.Operated.Dir)
	p.Name = cmp.Or(p.Name, strings.TrimPrefix(p.Dir, "instances/"))
	if p.InHead {
		if p.Intent, err = s.Repo.Read(ctx, p.Head.Revision); err != nil {
			return nil, err
		}
	}
	if open := cmp.Or(record.Open, record.Proposed); open != "" {
		if p.Open, err = s.Operations.Operation(ctx, open); err != nil {
			return nil, err
		}
	}
	seen, fresh := s.Facts.Running(ctx, id)
	if !fresh {
		seen = plan.Observed{Units: record.Units, Resources: record.Resources}
	}
	p.Picture = newPicture(p, seen, fresh)
	p.Drift, p.Problems = s.Facts.Drift(id), s.Facts.Problems(id)
	p.Operations = s.operationsOf(id, mostOperations)
	p.connections()
	rights := s.rightsOf(who, p.Dir, p.Head.EM)
	p.MayNot = rights.plan
	p.levels(ctx, s, rights)
	p.Buttons = p.buttons(rights)
	if scope, err := access.NewScope(who, s.Repo.Settings); err == nil {
		p.Choices = slices.DeleteFunc(s.Facts.Choices(scope), func(c Choice) bool { return c.VnfdID == body.VnfdID && p.Intent != nil && p.Intent.VnfdID == c.VnfdID })
	}
	p.marks()
	return p, nil
}

// marks says what matters most of the instance.
func (p *instancePage) marks() {
	add := func(kind, text string) { p.Marks = append(p.Marks, badge{kind, text}) }
	switch {
	case p.Body.InstantiationState != stateInstantiated:
		add("plain", "not instantiated")
	case p.Body.InstantiatedVnfInfo != nil && p.Body.InstantiatedVnfInfo.VnfState == lcm.Stopped:
		add("plain", "stopped")
	default:
		add("good", "instantiated")
	}
	if p.Open != nil {
		add(stateKind(p.Open.State), string(p.Open.Type)+" "+string(p.Open.State))
	}
	if p.Head.Suspend {
		add("warn", "suspended")
	}
	if p.Head.Held != "" {
		add("warn", "held")
	}
	if p.Body.Jibe != nil && p.Body.Jibe.Waiting != nil {
		add("warn", string(p.Body.Jibe.Waiting.Operation)+" waits: "+p.Body.Jibe.Waiting.For)
	}
	if p.Body.Jibe != nil && p.Body.Jibe.RolledBack != nil {
		add("warn", string(p.Body.Jibe.RolledBack.Operation)+" rolled back")
	}
	if p.Drift != nil {
		add("warn", "drift: "+p.Drift.State)
	}
	if len(p.Problems) > 0 {
		add("bad", "not obeyed")
	}
	if n := p.Picture.Failing; n > 0 {
		add("bad", count(n, "VNFC")+" failing")
	}
	if p.Picture.Stale {
		add("warn", "VIM can't be seen")
	}
	if !p.InHead {
		add("warn", "removed from git")
	}
}

// stateKind is the colour of an operation's state.
func stateKind(state lcm.State) string {
	switch state {
	case lcm.Completed:
		return "good"
	case lcm.FailedTemp, lcm.Failed:
		return "bad"
	case lcm.RolledBack, lcm.RollingBack:
		return "warn"
	}
	return "busy"
}

// levels fills in the scaling aspects of what runs.
func (p *instancePage) levels(ctx context.Context, s *Service, rights rights) {
	in := p.Intent
	if in == nil || p.Body.InstantiationState != stateInstantiated {
		return
	}
	pkg, err := s.Facts.Package(ctx, in)
	if err != nil {
		p.PackageError = err.Error()
		return
	}
	f, ok := pkg.VNFD.Flavour(in.Flavour)
	if !ok {
		return
	}
	wanted, err := f.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		p.PackageError = err.Error()
		return
	}
	is := map[string]int{}
	if info := p.Body.InstantiatedVnfInfo; info != nil {
		for _, l := range info.ScaleStatus {
			is[l.AspectID] = l.Level
		}
	}
	why := p.why(rights, true)
	for _, a := range f.Aspects {
		row := levelRow{Aspect: a.ID, Name: a.Name, Wanted: wanted[a.ID], Max: a.MaxLevel}
		if row.Level, ok = is[a.ID]; !ok {
			row.Level = row.Wanted
		}
		row.Out = button{Action: "scale", Text: "Scale out", Why: why, Fields: map[string]string{"aspect": a.ID, "type": lcm.ScaleOut}}
		row.In = button{Action: "scale", Text: "Scale in", Why: why, Fields: map[string]string{"aspect": a.ID, "type": lcm.ScaleIn}}
		if why == "" && row.Wanted >= row.Max {
			row.Out.Why = "it is at its highest level"
		}
		if why == "" && row.Wanted <= 0 {
			row.In.Why = "it is at its lowest level"
		}
		p.Levels = append(p.Levels, row)
	}
	slices.SortStableFunc(p.Levels, func(a, b levelRow) int { return natural.Compare(a.Aspect, b.Aspect) })
	p.Named = slices.SortedFunc(slices.Values(f.Levels), func(a, b vnfd.Level) int { return natural.Compare(a.ID, b.ID) })
	p.ToLevel = button{Action: "scale_to_level", Text: "Scale to level", Why: why}
}

// why says why nothing can be asked for of the instance now; running says that the VNF must run.
func (p *instancePage) why(rights rights, running bool) string {
	switch {
	case rights.plan != "":
		return rights.plan
	case !p.InHead:
		return "its directory was removed from the desired repository"
	case p.Open != nil && !(p.Open.Automatic && p.Open.State == lcm.FailedTemp):
		return string(p.Open.Type) + " is " + string(p.Open.State)
	case running && p.Body.InstantiationState != stateInstantiated:
		return "the VNF isn't instantiated"
	case running && p.Head.Suspend:
		return "the VNF is suspended"
	}
	return ""
}

// buttons are those of the instance as a whole.
func (p *instancePage) buttons(rights rights) []button {
	why := p.why(rights, true)
	started := p.Body.InstantiatedVnfInfo != nil && p.Body.InstantiatedVnfInfo.VnfState == lcm.Started
	var list []button
	add := func(action, text, why string) { list = append(list, button{Action: action, Text: text, Why: why}) }
	if p.Body.InstantiationState != stateInstantiated {
		instantiate := p.why(rights, false)
		if instantiate == "" && p.Head.Suspend {
			instantiate = "the VNF is suspended"
		}
		add("instantiate", "Instantiate", instantiate)
	} else {
		add("heal", "Heal the whole VNF", why)
		add("change_vnfpkg", "Upgrade", why)
		if started {
			add("stop", "Stop", why)
		} else {
			add("start", "Start", why)
		}
		add("terminate", "Terminate", why)
	}
	edit := rights.plan
	if edit == "" && !p.InHead {
		edit = "its directory was removed from the desired repository"
	}
	if p.Head.Suspend {
		add("resume", "Resume", edit)
	} else {
		add("suspend", "Suspend", edit)
	}
	if p.Head.Drift == desired.DriftReport {
		add("drift_correct", "Repair drift", edit)
	} else {
		add("drift_report", "Only report drift", edit)
	}
	return list
}

// connections lists where the instance runs and what it is connected to.
func (p *instancePage) connections() {
	for _, name := range slices.SortedFunc(maps.Keys(p.Body.VimConnectionInfo), natural.Compare) {
		c := p.Body.VimConnectionInfo[name]
		p.Connections = append(p.Connections, connectionRow{"VIM", name, c.VimType})
	}
	info := p.Body.InstantiatedVnfInfo
	if info == nil {
		return
	}
	for _, l := range info.VirtualLinks {
		p.Connections = append(p.Connections, connectionRow{cmp.Or(l.NetworkResource.VimLevelResourceType, "network"), l.VirtualLinkDesc, l.NetworkResource.ResourceID})
	}
	for _, l := range info.ExtVirtualLinks {
		p.Connections = append(p.Connections, connectionRow{"external network", l.ID, l.ResourceHandle.ResourceID})
	}
	for _, v := range info.VirtualStorages {
		p.Connections = append(p.Connections, connectionRow{"storage", v.VirtualStorageDesc, v.StorageResource.ResourceID})
	}
	p.Connections = p.Connections[:min(len(p.Connections), mostListed)]
}

// operationsOf are the newest operations of an instance, the newest first.
func (s *Service) operationsOf(id string, most int) []operationRow {
	var rows []operationRow
	// Most instances have few; of one that has very many, the last month is looked at first.
	for _, from := range []time.Time{time.Now().Add(-operationsLookback), {}} {
		rows = rows[:0]
		for e := range s.Operations.OperationEntries(oplog.OperationQuery{Instance: id, From: from}) {
			rows = append(rows, operationRow{ID: e.ID, Type: e.Type, State: e.State, Kind: stateKind(e.State), Automatic: e.Automatic, Started: e.Started, Entered: e.StateEntered})
			if len(rows) > 4*most {
				rows = slices.Delete(rows, 0, len(rows)-most)
			}
		}
		if len(rows) >= most {
			break
		}
	}
	rows = rows[max(0, len(rows)-most):]
	slices.Reverse(rows)
	return rows
}

// rights say what the caller may do to an instance: why not, "" where they may.
type rights struct{ plan, operate string }

func (s *Service) rightsOf(who auth.Identity, dir, em string) rights {
	scope, err := access.NewScope(who, s.Repo.Settings)
	if err != nil {
		return rights{err.Error(), err.Error()}
	}
	why := func(role auth.Role) string {
		if err := scope.Check(role, access.Instance{Dir: dir, EM: em}); err != nil {
			return err.Error()
		}
		return ""
	}
	return rights{plan: why(auth.Planner), operate: why(auth.Operator)}
}
