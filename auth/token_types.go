package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkType refuses a JWT that its issuer has signed for something else than a call of an API (RFC 8725
// clause 3.11): a logout token or another security event, a refresh token, an ID token unless these are
// taken. A type says so, in the header (RFC 9068: at+jwt) or in the claim of Keycloak's (Bearer, ID); where
// there is none, claims do that an access token hasn't. Tokens of Kubernetes have no type.
func checkType(token string, claims map[string]any, idTokens bool) error {
	header, claimed := headerType(token), ""
	if text, ok := claims["typ"].(string); ok {
		claimed = strings.ToLower(text)
	}
	if !slices.Contains([]string{"", "jwt", "at+jwt", "bearer"}, header) {
		return fmt.Errorf("its type %.40q isn't that of an access token", header)
	}
	if _, there := claims["events"]; there {
		return errors.New("it is a logout token, or tells of another event")
	}
	switch claimed {
	case "logout", "refresh", "offline", "registrationaccesstoken", "initialaccesstoken":
		return fmt.Errorf("its type %s isn't that of an access token", claimed)
	case "bearer":
		return nil
	}
	if header == "at+jwt" || idTokens {
		return nil
	}
	if claimed == "id" {
		return errIDToken
	}
	for _, name := range []string{"nonce", "at_hash", "c_hash", "s_hash"} {
		if _, there := claims[name]; there {
			return errIDToken
		}
	}
	return nil
}

var errIDToken = errors.New("it is an ID token, which says to a client who has logged in: send the access token, or, where the issuer gives none for an API, start the server with --oidc-id-tokens")

// headerType is the type in a token's header, in lower case and without "application/".
func headerType(token string) string {
	first, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	var header struct {
		Type string `json:"typ"`
	}
	if err != nil || json.Unmarshal(text, &header) != nil {
		return ""
	}
	return strings.TrimPrefix(strings.ToLower(header.Type), "application/")
}
