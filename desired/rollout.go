package desired

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired/window"
)

// RolloutDir holds a file a rollout, and RolloutStateDir, in it, what Jibe remembers of each.
const (
	RolloutDir      = "rollouts"
	RolloutStateDir = RolloutDir + "/.state"
)

// The values of Rollout.State.
const (
	RolloutRunning = "running"
	RolloutPaused  = "paused"
	RolloutAborted = "aborted"
)

// The values of RolloutFailures.Then: what comes beside that nothing more is begun.
const (
	ThenHalt        = "halt"        // nothing
	ThenRollback    = "rollback"    // what has failed goes back to where it was before
	ThenRollbackAll = "rollbackAll" // and so does all that was completed, the last one first
)

// Rollout is a parsed rollouts/<name>.yaml: instances that are brought to a package, wave by wave.
type Rollout struct {
	Name string `json:"name"`
	// ID is a UUID that Jibe fills in when the rollout starts. Waves depend on it.
	ID     string        `json:"id,omitempty"`
	Select RolloutSelect `json:"select"`
	To     RolloutTarget `json:"to"`
	// Order are the waves. None is one wave of everything.
	Order []RolloutWave `json:"order,omitempty"`
	// AtOnce bounds the instances that are under way, over all waves, PerVIM those at one VIM.
	AtOnce   Share           `json:"atOnce"`
	PerVIM   Share           `json:"perVIM,omitzero"`
	After    RolloutGate     `json:"after,omitzero"`
	Failures RolloutFailures `json:"failures"`
	// Write is WriteDirect (the default), where Jibe commits to the branch, or WritePullRequest, where it
	// proposes, and people merge.
	Write string `json:"write,omitempty"`
	// Windows are the times in which instances are begun with; none is at any time.
	Windows []window.Window `json:"-"`
	// State is RolloutRunning (the default), RolloutPaused or RolloutAborted.
	State string `json:"state"`
}

// RolloutSelect says which instances a rollout concerns: those that meet all that is given.
type RolloutSelect struct {
	// Folders are patterns of folders below instances/, as those of a project, each with all that is below.
	Folders []string `json:"folders,omitempty"`
	// Product is the vnfProductName of the VNFD that runs.
	Product string `json:"product,omitempty"`
	// Labels are values of which metadata (SOL003 VnfInstance.metadata) has one for each key, and
	// Expressions what it meets beside that, as the expressions of a label selector of Kubernetes.
	Labels      map[string][]string               `json:"labels,omitempty"`
	Expressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// RolloutTarget is what instances are brought to.
type RolloutTarget struct {
	VnfdID string `json:"vnfdId"`
	// Version is a constraint of semantic versions. When the rollout starts, Jibe puts VnfdID and Package
	// in its place, those of the newest version then of the product that is selected.
	Version string `json:"version,omitempty"`
	// Package is the git tree hash of the package. Jibe fills it in when the rollout starts, so
	// that all waves get the same.
	Package string `json:"package,omitempty"`
	// Strategy and Drain are written to update: of each instance; "" leaves what stands there.
	Strategy string `json:"strategy,omitempty"`
	Drain    string `json:"drain,omitempty"`
	// Levels, Params and Update are keys of vnf.yaml's levels:, params: and update: with the values
	// that they get. Keys that aren't named stay as they are.
	Levels map[string]int `json:"levels,omitempty"`
	Params map[string]any `json:"params,omitempty"`
	Update map[string]any `json:"update,omitempty"`
}

// RolloutWave is one wave: either named instances, or the percentage of all that shall be done when
// it ends.
type RolloutWave struct {
	// Instances are directories ("instances/tokyo/lab/amf").
	Instances []string `json:"instances,omitempty"`
	Percent   int      `json:"percent,omitempty"`
}

// RolloutGate is what must be met between two waves.
type RolloutGate struct {
	// Soak is how long a wave that ended is watched.
	Soak time.Duration `json:"soak,omitempty"`
	// Prometheus are queries that must be met after that.
	Prometheus []RolloutQuery `json:"prometheus,omitempty"`
	// Approve has a person say that the next wave may begin.
	Approve bool `json:"approve,omitempty"`
}

// RolloutQuery is a query of PromQL. It is met where it has had an answer all the time, as in an alerting
// rule; without a comparison, or with "bool", an answer of 0 is a no.
type RolloutQuery struct {
	// VIM is the one whose Prometheus is asked; "" is the server's.
	VIM   string `json:"vim,omitempty"`
	Query string `json:"query"`
	// For is the time, of which all must be after the wave's end; 0 is now.
	For time.Duration `json:"for,omitempty"`
}

// Unasked says why a VIM's Prometheus can't be asked the query, and what to do; both are "" where it can, or where the
// server's is.
func (q RolloutQuery) Unasked(s *Settings) (why, remedy string) {
	switch v := s.VIMs[q.VIM]; {
	case q.VIM == "" || v != nil && v.Prometheus.URL != "":
		return "", ""
	case v == nil:
		return fmt.Sprintf("there is no VIM %q", q.VIM), "name one of vims/ that has prometheus: {url: https://…}, or leave vim out"
	}
	return VIMFile(q.VIM) + " has no Prometheus", "write prometheus: {url: https://…} there, or leave vim out"
}

// IsZero says whether nothing must be met.
func (g RolloutGate) IsZero() bool { return g.Soak == 0 && !g.Approve && len(g.Prometheus) == 0 }

// Watched is how long a wave is watched at least after its end.
func (g RolloutGate) Watched() time.Duration {
	most := g.Soak
	for _, q := range g.Prometheus {
		most = max(most, q.For)
	}
	return most
}

// RolloutFailures says how many failures a rollout ends at, and what then.
type RolloutFailures struct {
	// Budget is the failure at which nothing more is begun, from 1. As many that can't be taken back
	// end a rollback.
	Budget int `json:"budget"`
	// Then is ThenHalt, ThenRollback or ThenRollbackAll.
	Then string `json:"then"`
	// RollbackAnytime has a rollback begin outside of windows, those of the rollout and those of
	// the instances' folders, as an administrator may.
	RollbackAnytime bool `json:"rollbackAnytime,omitempty"`
}

// Share is a number, or a percentage of all.
type Share struct {
	Number  int `json:"number,omitempty"`
	Percent int `json:"percent,omitempty"`
}

// IsZero says whether there is no bound.
func (s Share) IsZero() bool { return s == Share{} }

// Of is the share of n: at least 1, and all of n where there is no bound.
func (s Share) Of(n int) int {
	switch {
	case s.Number > 0:
		return s.Number
	case s.Percent > 0:
		return max(1, n*s.Percent/100)
	}
	return max(1, n)
}

// Digest tells two targets apart, and what is done for them: it is that of To.
func (t RolloutTarget) Digest() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // the parser has seen that it can be
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Edits are the edits of a vnf.yaml that bring an instance to the target.
func (t RolloutTarget) Edits() []KeyValue {
	var edits []KeyValue
	set := func(value any, path ...string) { edits = append(edits, KeyValue{Path: path, Value: value}) }
	if t.VnfdID != "" {
		set(t.VnfdID, "vnfdId")
		set(t.Package, "package")
	}
	if t.Strategy != "" {
		set(t.Strategy, "update", "strategy")
	}
	if t.Drain != "" {
		set(t.Drain, "update", "drain")
	}
	for _, key := range slices.Sorted(maps.Keys(t.Levels)) {
		set(t.Levels[key], "levels", key)
	}
	for _, key := range slices.Sorted(maps.Keys(t.Params)) {
		set(t.Params[key], "params", key)
	}
	for _, key := range slices.Sorted(maps.Keys(t.Update)) {
		set(t.Update[key], "update", key)
	}
	return edits
}

// Beside says whether the target has more than a package: then vnfdId and package alone don't tell
// whether an instance is there.
func (t RolloutTarget) Beside() bool { return len(t.Levels)+len(t.Params)+len(t.Update) > 0 }

// Reached says whether an instance's file asks for the target already.
func (t RolloutTarget) Reached(in *Instance) bool {
	if t.VnfdID != "" && (in.VnfdID != t.VnfdID || in.Package != t.Package) {
		return false
	}
	for key, level := range t.Levels {
		if now, set := in.Levels[key]; !set || now != level {
			return false
		}
	}
	for key, value := range t.Params {
		if now, set := in.Params[key]; !set || !sameJSON(now, value) {
			return false
		}
	}
	if len(t.Update) == 0 {
		return true
	}
	update := map[string]any{}
	text, err := json.Marshal(in.Update)
	if err != nil || json.Unmarshal(text, &update) != nil {
		return false // it has a number that JSON doesn't know, and the target has none
	}
	for key, value := range t.Update {
		if !sameJSON(update[key], value) {
			return false
		}
	}
	return true
}

// sameJSON says whether two values are the same in JSON, whatever their types here.
func sameJSON(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}

// Selects says whether the rollout concerns an instance in dir ("instances/site-a/amf") whose VNFD
// names the product, if it has the labels ([RolloutSelect.Labelled]).
func (r *Rollout) Selects(dir, product string) bool {
	if r.Select.Product != "" && r.Select.Product != product {
		return false
	}
	return len(r.Select.Folders) == 0 || slices.ContainsFunc(r.Select.Folders, func(p string) bool { return claimsDir(p, dir) })
}

// Waves are the waves in order: what Order says, or one of everything.
func (r *Rollout) Waves() []RolloutWave {
	if len(r.Order) == 0 {
		return []RolloutWave{{Percent: 100}}
	}
	return r.Order
}

// WaveOf is the number of the wave, from 0, that an instance belongs to, which doesn't depend on
// which others there are. ok is false for what no wave takes in.
func (r *Rollout) WaveOf(instance, dir string) (n int, ok bool) {
	for n, w := range r.Order {
		if slices.Contains(w.Instances, dir) {
			return n, true
		}
	}
	at := float64(r.Rank(instance)) / (1 << 64)
	for n, w := range r.Waves() {
		if w.Percent == 100 || at < float64(w.Percent)/100 {
			return n, true
		}
	}
	return 0, false
}

// Rank is where the instance stands in the rollout's order, spread evenly.
func (r *Rollout) Rank(instance string) uint64 {
	sum := sha256.Sum256([]byte(r.ID + "/" + instance))
	return binary.BigEndian.Uint64(sum[:8])
}

// Meets says whether there can be an instance that both rollouts select.
func (r *Rollout) Meets(other *Rollout) bool {
	if r.Select.Product != "" && other.Select.Product != "" && r.Select.Product != other.Select.Product {
		return false
	}
	if r.Select.labelsPart(other.Select) {
		return false
	}
	if len(r.Select.Folders) == 0 || len(other.Select.Folders) == 0 {
		return true
	}
	_, _, meet := anyMeet(r.Select.Folders, other.Select.Folders, foldersMeet)
	return meet
}

// RolloutFile is the path of a rollout's file.
func RolloutFile(name string) string { return RolloutDir + "/" + name + ".yaml" }

// LedgerFile is the path of a rollout's ledger.
func LedgerFile(id string) string { return RolloutStateDir + "/" + id + ".yaml" }

// IsRolloutFile says whether a path is one of a rollout's file.
func IsRolloutFile(file string) bool {
	dir, base, ok := strings.Cut(file, "/")
	name, yaml := strings.CutSuffix(base, ".yaml")
	return ok && yaml && dir == RolloutDir && settingName.MatchString(name)
}

// Ledger is a parsed rollouts/.state/<id>.yaml: what a rollout has done so far. Only Jibe writes it.
type Ledger struct {
	// Rollout is the rollout's name, Started when it began.
	Rollout string
	Started time.Time
	// Target is the digest of the target that counts.
	Target string
	// Wave is the wave under way, from 0. Soak is since when it is watched after its end.
	Wave int
	Soak time.Time
	// Approved is the approval of the gate after Wave.
	Approved *Approval
	// Halted is why nothing more is begun; nil where it isn't.
	Halted *Halt
	// Forgiven are failures that count no more: a person had the rollout go on after them.
	Forgiven int
	// Ended is set when the rollout has ended: nothing of it is done any more.
	Ended *RolloutEnd
	// Proposal is what was proposed and isn't on the branch yet; nil where nothing is. Proposals counts all
	// that there were.
	Proposal  *RolloutProposal
	Proposals int
	// Unmerged is since when people have merged nothing, though something was there to be merged whenever
	// the rollout let them; zero where that isn't so. A proposal that is made anew goes on with it.
	Unmerged time.Time
	// Attempts are by instance, the latest last.
	Attempts map[string][]Attempt
}

// Approval is a person's word that a gate may be passed.
type Approval struct {
	// Gate is the digest of what was approved.
	Gate string
	By   string
	At   time.Time
}

// Halt is why a rollout begins nothing more.
type Halt struct {
	At     time.Time
	Reason string
	// Unknown says that of some instance nobody knows what came. Then nothing is taken back either.
	Unknown bool
	// Closed says that a person has closed a pull request: what was done before stays.
	Closed bool
}

// RolledBack is the value of RolloutEnd.As for a rollout that has taken back what it did.
const RolledBack = "rolled back"

// RolloutEnd is how a rollout has ended: "completed", "aborted" or RolledBack.
type RolloutEnd struct {
	At time.Time
	As string
}

// The values of Attempt.Outcome. "" is that the attempt is under way.
const (
	OutcomeCompleted  = "completed"
	OutcomeFailed     = "failed"
	OutcomeSuperseded = "superseded" // a person did something else with the instance
	OutcomeUnknown    = "unknown"
	OutcomeUnseen     = "unseen" // its VIM was away, and nothing had begun: it is made anew
)

// Attempt is one try to bring an instance to a target, or with Back to take it back from there.
type Attempt struct {
	Back bool
	// Retried says that a person had it made anew, or that its outcome is OutcomeUnseen: it counts no more.
	Retried bool
	// Edited says that a pull request was merged otherwise than it was proposed: what Tree has
	// beside the target is a person's.
	Edited bool
	// Target is the target's digest, and Wave the wave that was under way.
	Target string
	Wave   int
	// Prior is the tree of the directory that the attempt began from, and Tree the one that it
	// committed; "" where it was refused before.
	Prior, Tree string
	Began       time.Time
	Outcome     string
	Ended       time.Time
	Reason      string
}

// Failed says whether the attempt counts as a failure. What nobody knows does.
func (a Attempt) Failed() bool { return a.Outcome == OutcomeFailed || a.Outcome == OutcomeUnknown }

// Of is the instance's attempt at the target, nil where there is none.
func (l *Ledger) Of(instance, target string) *Attempt { return l.find(instance, target, false) }

// BackOf is the attempt to take the instance back from the target, nil where there is none.
func (l *Ledger) BackOf(instance, target string) *Attempt { return l.find(instance, target, true) }

func (l *Ledger) find(instance, target string, back bool) *Attempt {
	list := l.Attempts[instance]
	for i := range list {
		if list[i].Target == target && list[i].Back == back && !list[i].Retried {
			return &list[i]
		}
	}
	return nil
}

// Retry has the instance's attempts at the target count no more, so that it is begun with again. The
// wave under way goes on with it. Their outcomes must be known.
func (l *Ledger) Retry(instance string) {
	if a := l.Of(instance, l.Target); a != nil && a.Failed() && l.Forgiven > 0 {
		l.Forgiven-- // else a failure to come would be forgiven beforehand
	}
	list := l.Attempts[instance]
	for i := range list {
		list[i].Retried = list[i].Retried || list[i].Target == l.Target
	}
	l.Soak, l.Approved = time.Time{}, nil
}

// Failures counts the attempts at the target that have failed, forgiven or not.
func (l *Ledger) Failures() (n int) {
	for id := range l.Attempts {
		if a := l.Of(id, l.Target); a != nil && a.Failed() {
			n++
		}
	}
	return n
}

// Clone is a ledger that may be changed.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.Proposal = l.Proposal.Clone()
	c.Attempts = make(map[string][]Attempt, len(l.Attempts))
	for id, list := range l.Attempts {
		c.Attempts[id] = slices.Clone(list)
	}
	return &c
}

// Gate is the digest of what a person approves after the wave: the target, the wave, and what came
// of each instance so far.
func (l *Ledger) Gate() string {
	h := sha256.New()
	write := func(parts ...string) {
		for _, p := range parts {
			h.Write([]byte(p))
			h.Write([]byte{0})
		}
	}
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(l.Wave)) //nolint:gosec // from 0
	write(l.Rollout, l.Target, string(n[:]))
	for _, id := range l.instances() {
		if a := l.Of(id, l.Target); a != nil {
			write(id, a.Outcome)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func (l *Ledger) instances() []string {
	ids := make([]string, 0, len(l.Attempts))
	for id := range l.Attempts {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[string])
	return ids
}
