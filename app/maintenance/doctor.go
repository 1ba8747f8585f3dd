package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// DoctorPath is where a server is asked to examine itself, at the API and on the socket in the
// data directory.
const DoctorPath = "/jibe/v1/doctor"

// Place is what is examined: a data directory, what flags say of it, and what may be reached.
type Place struct {
	Data, Branch, Remote string
	Certificates         []doctor.Certificate
	Key                  secret.LockOptions
	Reach                secret.Reach
	Confinement          hooks.Confinement
	HooksAllowed         bool
	Look                 Look
	// Token asks the forge whether it takes the token; nil where no forge is told.
	Token func(ctx context.Context) error
	// Show tells where the records are.
	Show func(*doctor.Target)
}

// Look looks at a VIM with its credentials.
type Look func(ctx context.Context, v *desired.VIM, keeper *secret.Keeper) (drivers.Sight, error)

// Doctor examines the process that serves.
type Doctor struct {
	Place
	Settings func() (*desired.Settings, error)
	Keeper   *secret.Keeper
	Audit    AuditLog
	Health   func() error
}

// AuditLog reports whether it can be written, and where it ends.
type AuditLog interface {
	Ready() error
	End() audit.Head
}

// target is what both examinations have in common.
func (p Place) target() *doctor.Target {
	t := &doctor.Target{
		Data: p.Data, Branch: p.Branch, Remote: p.Remote, Certificates: p.Certificates, Keeper: func() (*secret.Keeper, error) { return reopened(p) },
		Hooks: confinedHere(p.Confinement), HooksAllowed: p.HooksAllowed, Token: p.Token,
	}
	p.Show(t)
	return t
}

// ServeHTTP answers with what the checks found: [doctor.Result].
func (d *Doctor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := d.target()
	t.Settings = func(context.Context) (*desired.Settings, error) { return d.Settings() }
	t.VIM = func(ctx context.Context, v *desired.VIM) (drivers.Sight, error) { return d.Look(ctx, v, d.Keeper) }
	t.Audit = func(context.Context) (string, error) {
		if err := d.Audit.Ready(); err != nil {
			return "", err
		}
		return "it is written, and stands at record " + fmt.Sprint(d.Audit.End().Seq), nil
	}
	t.Health = d.Health

	answer.JSON(w, http.StatusOK, doctor.Run(r.Context(), t.Checks(r.Context())))
}

// Examine runs the checks on a data directory on which no server runs.
func Examine(ctx context.Context, p Place) []doctor.Result {
	if data, err := filepath.Abs(p.Data); err == nil {
		p.Data = data
	}
	t := p.target()
	t.Settings = func(ctx context.Context) (*desired.Settings, error) { return settingsOf(ctx, p) }
	t.VIM = func(ctx context.Context, v *desired.VIM) (drivers.Sight, error) {
		k, err := t.Keeper()
		if err != nil {
			return drivers.Sight{}, err
		}
		return p.Look(ctx, v, k)
	}
	if datadir.Exists(datadir.AuditFile(p.Data)) {
		t.Audit = func(context.Context) (string, error) { return auditEnd(p) }
	}
	return doctor.Run(ctx, t.Checks(ctx))
}

// settingsOf reads the settings at head.
func settingsOf(ctx context.Context, o Place) (*desired.Settings, error) {
	dir := datadir.Desired(o.Data)
	head, err := git.ReadRef(dir, "refs/heads/"+cmp.Or(o.Branch, "main"))
	if err != nil {
		return nil, err
	}
	if head == "" {
		return nil, errors.New("there is no commit yet")
	}
	r := read.ReadOnly(dir, o.Branch)
	defer r.Close()
	return r.SettingsAt(ctx, head)
}

// reopened opens the key as a start does. It never makes one.
func reopened(o Place) (*secret.Keeper, error) {
	if _, err := os.Stat(filepath.Join(o.Data, secret.IdentityFile)); err != nil {
		return nil, err
	}
	by, err := o.Key.Lock()
	if err != nil {
		return nil, err
	}
	k, err := secret.Open(o.Data, by)
	if err != nil {
		return nil, err
	}
	return k.With(o.Reach)
}

// largestChecked is the size of an audit log up to which all of it is checked, bytes.
const largestChecked = 64 << 20

// auditEnd checks the audit log's present file against where it was noted to end.
func auditEnd(o Place) (string, error) {
	key, err := datadir.DerivedKey(o.Data, o.Key, datadir.AuditPurpose)
	if err != nil {
		return "", err
	}
	end, err := audit.ReadHead(datadir.AuditHead(o.Data), key)
	if err != nil {
		return "", err
	}
	file := datadir.AuditFile(o.Data)
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Size() > largestChecked {
		return fmt.Sprintf("it was noted to end with record %d; it is too long to be checked here (jibe audit verify does)", end.Seq), nil
	}
	got, err := audit.Verify(audit.Check{Key: key, Ends: []audit.Head{end}, Partial: true}, file)
	if errors.Is(err, audit.ErrEmpty) {
		return "", fmt.Errorf("%s is empty, and the log was noted to end with record %d", file, end.Seq)
	} else if err != nil {
		return "", err
	}
	return fmt.Sprintf("records %d to %d are whole", got.First, got.End.Seq), nil
}

// confinedHere says how hooks are confined on this machine.
func confinedHere(c hooks.Confinement) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		c.Secret = slices.Clone(c.Secret)
		c.Launcher = []string{self, confine.Command}
		return (&hooks.Runner{Confinement: c}).Confined(ctx)
	}
}
