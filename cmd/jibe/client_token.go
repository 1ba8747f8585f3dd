package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// token returns the bearer token to send, and where it comes from. Both are "" where there
// is none.
func (c *client) token() (token, from string, err error) {
	switch {
	case c.tokenFile != "":
		from = "--token-file " + c.tokenFile
		if c.tokenFile == os.Getenv("JIBE_TOKEN_FILE") {
			from = "$JIBE_TOKEN_FILE, " + c.tokenFile
		}
		text, err := os.ReadFile(c.tokenFile)
		return strings.TrimSpace(string(text)), from, err
	case os.Getenv("JIBE_TOKEN") != "":
		return os.Getenv("JIBE_TOKEN"), "$JIBE_TOKEN", nil
	case c.data != "":
		token, err = auth.LocalToken(datadir.TokensFile(c.data))
		return token, "the data directory " + c.data, err
	}
	return "", "", nil
}

// explainToken adds to an answer of 401 which token was sent: its digest, as tokens.yaml can
// have it, and where the token was found.
func explainToken(err error, token, from string) error {
	var no *refusal
	if !errors.As(err, &no) || no.status != http.StatusUnauthorized {
		return err
	}
	used := "no token was sent: give one with --token-file, $JIBE_TOKEN or --data"
	if token != "" {
		used = fmt.Sprintf("the token sent is that of %s, its digest begins with sha256:%.12x; --token-file, $JIBE_TOKEN and --data name another, in this order", from, sha256.Sum256([]byte(token)))
	}
	return &refusal{no.status, fmt.Sprintf("%s (%s)", no.said, used)}
}
