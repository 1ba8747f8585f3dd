package app

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// ErrNoToken is returned where a data directory has no token in clear.
var ErrNoToken = errors.New("the token file keeps no token in clear; give one with --token-file or $JIBE_TOKEN")

// LocalToken is a token of the server on the data directory dir, for a client
// that may read the directory.
func LocalToken(dir string) (string, error) {
	text, err := os.ReadFile(datadir.TokensFile(dir))
	if err != nil {
		return "", err
	}
	var file struct {
		Tokens []struct{ Token string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("%s is not a token file", datadir.TokensFile(dir)) // the parser would quote the token
	}
	for _, t := range file.Tokens {
		if t.Token != "" && !strings.HasPrefix(t.Token, "sha256:") {
			return t.Token, nil
		}
	}
	return "", ErrNoToken
}
