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

	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		// The parser would quote the token.
		return "", fmt.Errorf("%s is not a token file; give a token with --token-file or $JIBE_TOKEN", path)
	}

	for _, t := range f.Tokens {
		if token := string(t.Token); token != "" && !strings.HasPrefix(token, hashed) {
			return token, nil
		}
	}

	return "", fmt.Errorf("%s: %w", path, ErrNoToken)
}
