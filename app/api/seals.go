package api

import (
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

// instanceSeals are [sol.Secrets]: what clients give is encrypted for the project that has the instance.
type instanceSeals struct {
	keeper   *secret.Keeper
	settings func() (*desired.Settings, error)
}

// KeepParam implements [sol.Secrets].
func (s instanceSeals) KeepParam(dir, old, plaintext string) (string, error) {
	settings, err := s.settings()
	if err != nil {
		return "", err
	}
	return s.keeper.For(secret.ForParams(settings.ProjectNameOf(dir))).Keep(old, plaintext)
}

// KeepConnection implements [sol.Secrets].
func (s instanceSeals) KeepConnection(dir, endpoint, old, plaintext string) (string, error) {
	settings, err := s.settings()
	if err != nil {
		return "", err
	}
	return s.keeper.For(secret.ForConnection(settings.ProjectNameOf(dir), endpoint)).Keep(old, plaintext)
}
