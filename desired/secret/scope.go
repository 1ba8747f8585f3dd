package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/jibe-vnfm/jibe/desired"
)

// Kind says what an encrypted value is for.
type Kind string

// The kinds of values. The first four stand in git; the others are in records of Jibe's own, and are of no use in git.
const (
	// KindParams are parameters of an instance, and those of its coordination hooks.
	KindParams Kind = "params"
	// KindConnection are credentials in an instance's own vimConnectionInfo.
	KindConnection Kind = "connection"
	// KindVIM are credentials in files under vims/.
	KindVIM Kind = "vim"
	// KindSettings are credentials in other settings, such as peers.yaml.
	KindSettings Kind = "settings"

	kindSubscription Kind = "subscription"
	kindUpload       Kind = "upload"
	kindHook         Kind = "hook"
)

// Scope is where an encrypted value may be used. It stands in the header of the age file, which the file's own key
// authenticates: who can't read the value can't change it. The zero Scope is that of values from before there were
// scopes, which count only where they stand already.
type Scope struct {
	Kind Kind `json:"for"`
	// Project is that of the instance, for [KindParams] and [KindConnection].
	Project string `json:"project,omitempty"`
	// Endpoint is that of the connection, for [KindConnection], in the form of [desired.EndpointForm].
	Endpoint string `json:"endpoint,omitempty"`
}

// ForParams is the scope of parameters of instances in the project.
func ForParams(project string) Scope { return Scope{Kind: KindParams, Project: project} }

// ForConnection is the scope of credentials for an endpoint that instances in the project name themselves.
func ForConnection(project, endpoint string) Scope {
	return Scope{Kind: KindConnection, Project: project, Endpoint: desired.EndpointForm(endpoint)}
}

// ForVIMs is the scope of files under vims/.
func ForVIMs() Scope { return Scope{Kind: KindVIM} }

// ForSettings is the scope of other settings.
func ForSettings() Scope { return Scope{Kind: KindSettings} }

// ForSubscriptions is the scope of subscribers' credentials in records.
func ForSubscriptions() Scope { return Scope{Kind: kindSubscription} }

// ForUploads is the scope of credentials for where a package is fetched, in records.
func ForUploads() Scope { return Scope{Kind: kindUpload} }

// ForHooks is the scope of what hooks hand over to later ones, in records.
func ForHooks() Scope { return Scope{Kind: kindHook} }

// ScopeAt is the scope that a value must have to stand at a reference of an instance in the project.
func ScopeAt(project string, r desired.Reference) Scope {
	if r.Connection == "" {
		return ForParams(project)
	}
	return ForConnection(project, r.Endpoint)
}

// IsZero reports whether it is none.
func (s Scope) IsZero() bool { return s == Scope{} }

// String says it in words.
func (s Scope) String() string {
	instances := "instances"
	if s.Project != "" {
		instances += " in project " + s.Project
	}
	switch s.Kind {
	case KindParams:
		return "parameters of " + instances
	case KindConnection:
		return "vimConnectionInfo of " + instances + " with the endpoint " + cmp.Or(s.Endpoint, "\"\"")
	case KindVIM:
		return "files under " + desired.VIMDir + "/"
	case KindSettings:
		return desired.PeersFile
	case "":
		return "no place in particular"
	}
	return "Jibe's own records (" + string(s.Kind) + ")"
}

// Command is how a person encrypts a value for the scope, "" where no person does.
func (s Scope) Command(recipient string) string {
	command, project := "jibe secret encrypt --recipient "+recipient, cmp.Or(s.Project, "NAME")
	switch s.Kind {
	case KindParams:
		return command + " --project " + project
	case KindConnection:
		return command + " --project " + project + " --for connection --endpoint " + s.Endpoint
	case KindVIM, KindSettings:
		return command + " --for " + string(s.Kind)
	}
	return ""
}

// covers reports whether a value of the scope may be opened where another one is wanted. The project counts where a
// change is judged and not here: projects may change around what runs, which must be looked after all the same.
func (s Scope) covers(wanted Scope) bool {
	return s.Kind == wanted.Kind && s.Endpoint == wanted.Endpoint
}

// stanzaType is that of the stanza in the header of an age file that has the scope, and stanzaVersion its argument.
// Programs that know nothing of it pass it over, as age has it.
const (
	stanzaType    = "jibe-scope"
	stanzaVersion = "1"
)

// Wrap implements [age.Recipient]: it wraps no key, and adds the scope to what the header authenticates.
func (s Scope) Wrap([]byte) ([]*age.Stanza, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return []*age.Stanza{{Type: stanzaType, Args: []string{stanzaVersion}, Body: body}}, nil
}

// errScope is returned for a scope that can't be understood.
var errScope = errors.New("the secret's scope can't be understood: another version of jibe has encrypted it, or it is damaged")

// scopeOf reads the scope from a header; without one it is the zero one.
func scopeOf(stanzas []*age.Stanza) (s Scope, err error) {
	found := 0
	for _, stanza := range stanzas {
		if stanza.Type != stanzaType {
			continue
		}
		found++
		in := json.NewDecoder(bytes.NewReader(stanza.Body))
		in.DisallowUnknownFields()
		if len(stanza.Args) != 1 || stanza.Args[0] != stanzaVersion || in.Decode(&s) != nil || s.Kind == "" || found > 1 {
			return Scope{}, errScope
		}
	}
	return s, nil
}

// reader is an age identity that notes the scope.
type reader struct {
	identities []age.Identity
	scope      Scope
	err        error
}

// Unwrap implements [age.Identity].
func (r *reader) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if r.scope, r.err = scopeOf(stanzas); r.err != nil {
		return nil, r.err
	}
	for _, id := range r.identities {
		key, err := id.Unwrap(stanzas)
		if !errors.Is(err, age.ErrIncorrectIdentity) {
			return key, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}

// open decrypts what follows "age:" in a reference. Its error is [ErrForeign], or that the scope can't be understood.
func open(text string, identities ...age.Identity) (clear string, scope Scope, _ error) {
	if len(text) > 2*maxSecret {
		return "", Scope{}, ErrForeign
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", Scope{}, ErrForeign
	}
	by := &reader{identities: identities}
	r, err := age.Decrypt(bytes.NewReader(raw), by)
	switch {
	case by.err != nil:
		return "", Scope{}, by.err
	case err != nil:
		return "", Scope{}, ErrForeign
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil || len(data) > maxSecret {
		return "", Scope{}, ErrForeign
	}
	return string(data), by.scope, nil
}

// encrypt encrypts for the recipients, with a scope unless that is zero.
func encrypt(plaintext string, scope Scope, recipients ...age.Recipient) (string, error) {
	if len(plaintext) > maxSecret {
		return "", fmt.Errorf("encrypt secret: it has %d bytes, at most %d are allowed", len(plaintext), maxSecret)
	}
	if !scope.IsZero() {
		recipients = append(recipients, scope)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipients...)
	if err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	if _, err := io.WriteString(w, plaintext); err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	return desired.RefAge + base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

// ScopeOf is the scope of an encrypted reference, zero for one from before there were scopes. The error is [ErrNotRef],
// [ErrForeign], or that the scope can't be understood.
func (k *Keeper) ScopeOf(ref string) (Scope, error) {
	text, ok := strings.CutPrefix(ref, desired.RefAge)
	if !ok {
		return Scope{}, ErrNotRef
	}
	ring, _ := k.keys.now() // the former one may still decrypt it
	_, scope, err := open(text, ring.readers()...)
	return scope, err
}

// Misplaced is the refusal of a value of one scope where another one is wanted.
func (k *Keeper) Misplaced(is, wanted Scope) *ForbiddenError {
	reason := fmt.Sprintf("the encrypted value is for %s, and not for %s", is, wanted)
	if is.IsZero() {
		reason = fmt.Sprintf("the encrypted value doesn't say what it is for, as those of earlier versions, which count only where they stand already; it would have to be for %s", wanted)
	}
	remedy := "write the secret itself where it may be used"
	if command := wanted.Command(k.Recipient()); command != "" {
		remedy = "encrypt the secret itself for here: " + command
	}
	return &ForbiddenError{Reason: reason, Remedy: remedy}
}

// Scoped encrypts and resolves secrets for one scope.
type Scoped struct {
	keeper *Keeper
	scope  Scope
}

// For returns the keeper's side for one scope.
func (k *Keeper) For(scope Scope) Scoped { return Scoped{k, scope} }

// Encrypt returns the "age:…" reference that stands for plaintext in the scope. Twice the same plaintext gives
// different references: see [Scoped.Keep].
//
// Who is in [RecipientsFile] can decrypt it, too. Where the key's files have become unreadable nothing is encrypted: it
// might be for the wrong ones.
func (s Scoped) Encrypt(plaintext string) (string, error) {
	ring, err := s.keeper.keys.now()
	if err != nil {
		return "", fmt.Errorf("encrypt secret: %w", err)
	}
	return encrypt(plaintext, s.scope, ring.recipients()...)
}

// Same reports whether old is an encrypted reference to exactly plaintext, of this scope or from before there were
// scopes.
func (s Scoped) Same(old, plaintext string) bool {
	text, ok := strings.CutPrefix(old, desired.RefAge)
	if !ok {
		return false
	}
	ring, _ := s.keeper.keys.now()
	was, scope, err := open(text, ring.readers()...)
	return err == nil && was == plaintext && (scope.IsZero() || scope == s.scope)
}

// Keep is Encrypt, but returns old where that stands for plaintext already, so that a request which changes nothing
// changes no file. A plaintext that is a reference itself is returned as it is.
func (s Scoped) Keep(old, plaintext string) (string, error) {
	if IsRef(plaintext) {
		return plaintext, nil
	}
	if s.Same(old, plaintext) {
		return old, nil
	}
	return s.Encrypt(plaintext)
}

// Resolve returns what ref stands for. One newline at the end of a file is not part of it. Text that isn't a reference
// is [ErrNotRef], also where it might be the secret itself; one that the keeper's [Reach] doesn't let it follow, or
// that was encrypted for another scope, is a [*ForbiddenError]. No error repeats ref or what it stands for, but the
// name of a variable or file.
func (s Scoped) Resolve(ref string) (string, error) {
	text, ok := strings.CutPrefix(ref, desired.RefAge)
	if !ok || !IsRef(ref) {
		return s.keeper.outer(ref)
	}
	ring, _ := s.keeper.keys.now() // the former one may still decrypt it
	clear, scope, err := open(text, ring.readers()...)
	if err != nil {
		return "", err
	}
	if !scope.IsZero() && !scope.covers(s.scope) && !(scope.Kind == kindHook && s.scope.Kind == KindParams) { // hooks are handed both
		return "", s.keeper.Misplaced(scope, s.scope)
	}
	return clear, nil
}
