package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holds compares a finding, and sees that who is told of something wrong is also told what to do.
func holds(t *testing.T, name string, got Finding, state State, says string) {
	t.Helper()
	if got.State != state || !strings.Contains(got.Means, says) || (got.Do == "") != (state == OK || state == Skipped) {
		t.Errorf("%s: %+v, want %s with %q", name, got, state, says)
	}
}

func TestLittleRoomIsAWarningAndHardlyAnyAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		free, inodes, of uint64
		state            State
		says             string
	}{
		"room":               {50 << 30, 900, 1000, OK, "50 GiB"},
		"little":             {900 << 20, 900, 1000, Warning, "900 MiB left"},
		"hardly any":         {99 << 20, 900, 1000, Failed, "99 MiB left"},
		"few inodes":         {50 << 30, 49, 1000, Warning, "49 of 1000 inodes"},
		"inodes not counted": {50 << 30, 0, 0, OK, "50 GiB"},
	} {
		holds(t, name, room("/data", c.free, c.inodes, c.of), c.state, c.says)
	}
	holds(t, "no file system", (&Target{Data: filepath.Join(t.TempDir(), "gone")}).disk(t.Context()), Failed, "gone")
}

func TestAGitThatIsOldOrMissingHasFailed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	target := &Target{}
	holds(t, "missing", target.git(t.Context()), Failed, "git")
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\necho git version 2.30.2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	holds(t, "old", target.git(t.Context()), Failed, "2.30 is too old")
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\ncase \"$*\" in *exec-path*) echo "+dir+";; *) echo git version 2.47.1;; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	holds(t, "without its server", target.git(t.Context()), Warning, "no http-backend")
	if err := os.WriteFile(filepath.Join(dir, "git-http-backend"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	holds(t, "without fixes", target.git(t.Context()), Warning, "from 2.47.3 on")
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\ncase \"$*\" in *exec-path*) echo "+dir+";; *) echo git version 2.47.3;; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	holds(t, "whole", target.git(t.Context()), OK, "2.47.3")
}

func TestClocksThatDifferAreToldByHowMuchAndWhich(t *testing.T) {
	for skew, c := range map[time.Duration]struct {
		state State
		says  string
	}{
		0:                 {OK, ""},
		-4 * time.Second:  {OK, ""},
		6 * time.Second:   {Warning, "6s ahead"},
		-90 * time.Second: {Warning, "1m30s behind"},
		-2 * time.Minute:  {Failed, "2m0s behind this machine's: tokens and certificates are refused"},
	} {
		holds(t, skew.String(), clock("forge.example", skew), c.state, c.says)
	}
	forge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer forge.Close()
	u, err := url.Parse(forge.URL)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, "a forge that refuses", (&Target{}).forgeClock(t.Context(), u), Failed, "behind this machine's")
}

// certificateFile writes certificates that end at these times.
func certificateFile(t *testing.T, ends ...time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, end := range ends {
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	file := filepath.Join(t.TempDir(), "tls.crt")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestACertificateThatExpiresIsToldWithTheFlagThatNamesIt(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	past, soon, later := now.Add(-time.Hour), now.AddDate(0, 0, 9), now.AddDate(1, 0, 0)
	own := func(ends ...time.Time) Certificate {
		return Certificate{Flag: "--tls-cert", File: certificateFile(t, ends...)}
	}
	authorities := func(ends ...time.Time) Certificate {
		return Certificate{Flag: "--client-ca", File: certificateFile(t, ends...), Authorities: true}
	}
	for name, c := range map[string]struct {
		files []Certificate
		state State
		says  string
	}{
		"none is named":                      {[]Certificate{{Flag: "--tls-cert"}}, Skipped, "--tls-cert"},
		"all hold":                           {[]Certificate{own(later), authorities(later)}, OK, "--client-ca names holds until 2027-05-04"},
		"soon":                               {[]Certificate{authorities(later), own(soon)}, Warning, "what --tls-cert names expires on 2026-05-13T03:02:01Z, in 9 days"},
		"over":                               {[]Certificate{own(past)}, Failed, "expired on 2026-05-04"},
		"a link of the chain is over":        {[]Certificate{own(later, past)}, Failed, "expired"},
		"over weighs more than soon":         {[]Certificate{own(soon), authorities(past)}, Failed, "what --client-ca names expired"},
		"an old authority beside a new one":  {[]Certificate{authorities(past, later)}, OK, "holds until"},
		"a new authority beside an old one":  {[]Certificate{authorities(later, past)}, OK, "holds until"},
		"the file is gone":                   {[]Certificate{{Flag: "--notify-ca", File: "/nowhere/ca.crt"}}, Failed, "/nowhere/ca.crt"},
		"the file has no certificate in PEM": {[]Certificate{own()}, Failed, "holds none"},
	} {
		target := &Target{Certificates: c.files, Now: func() time.Time { return now }}
		holds(t, name, target.certificates(t.Context()), c.state, c.says)
	}
}

func TestHooksThatCanNotBeConfinedHaveFailedOnlyWhereTheyAreAllowed(t *testing.T) {
	can := func(how string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return how, nil }
	}
	cant := func(context.Context) (string, error) { return "", errors.New("this kernel has no Landlock") }
	for name, c := range map[string]struct {
		target Target
		state  State
		says   string
	}{
		"allowed, confined":       {Target{HooksAllowed: true, Hooks: can("Landlock")}, OK, "confined by Landlock"},
		"allowed, can't be":       {Target{HooksAllowed: true, Hooks: cant}, Failed, "no Landlock"},
		"allowed, and unconfined": {Target{HooksAllowed: true, Hooks: can("not at all")}, Warning, "all the rights"},
		"not allowed, can't be":   {Target{Hooks: cant}, Warning, "no Landlock"},
		"not allowed":             {Target{Hooks: can("Landlock")}, OK, "would be confined"},
		"not known":               {Target{}, Skipped, "isn't known"},
	} {
		holds(t, name, c.target.hooks(t.Context()), c.state, c.says)
	}
}
