package auth

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// ErrNoToken is returned where a token file has no token in clear.
var ErrNoToken = errors.New("the token file keeps no token in clear; give one with --token-file or $JIBE_TOKEN")

// LocalToken is the first token that the token file at path has in clear, for a client on the server's machine that
// may read the file.
func LocalToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}

	var file struct {
		Tokens []struct{ Token string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("%s is not a token file", path) // the parser would quote the token
	}

	for _, t := range file.Tokens {
		if t.Token != "" && !strings.HasPrefix(t.Token, hashed) {
			return t.Token, nil
		}
	}

	return "", ErrNoToken
}
