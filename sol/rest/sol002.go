package rest

import (
	"net/http"
	"strings"

	"github.com/jibe-vnfm/jibe/auth"
)

// vimConnectionInfo is what SOL003 has and SOL002 hasn't (both v3.7.1): by it an NFVO says at
// which VIM a VNF runs, and with which account.
const vimConnectionInfo = "vimConnectionInfo"

// formFor is how the caller writes and reads bodies, where form is how clients of the version
// do: who is confined to SOL002 neither writes nor reads what it hasn't.
func formFor(who auth.Identity, form *Form) *Form {
	if who.Interface != auth.SOL002 {
		return form
	}
	return &Form{
		Request: func(body map[string]any) error {
			for attr := range body {
				if strings.EqualFold(attr, vimConnectionInfo) {
					return Problem(http.StatusForbidden, "%s is confined to the interface of SOL002, which has no attribute %q: leave it out", who, vimConnectionInfo)
				}
			}
			if form == nil {
				return nil
			}
			return form.Request(body)
		},
		Answer: func(body map[string]any) {
			if form != nil {
				form.Answer(body)
			}
			withoutVIMs(body)
		},
	}
}

// Trimmed is a body without what the interface of who reads it hasn't.
func Trimmed(who auth.Identity, body any) any {
	if who.Interface != auth.SOL002 {
		return body
	}
	m, err := Generic(body)
	if err != nil {
		return map[string]any{} // which can't be, as it is written as JSON next
	}
	withoutVIMs(m)
	return m
}

func withoutVIMs(body map[string]any) {
	delete(body, vimConnectionInfo)
	for _, part := range []string{"operationParams", "changedInfo", "modificationsTriggeredByVnfPkgChange"} {
		if inside, ok := body[part].(map[string]any); ok {
			delete(inside, vimConnectionInfo)
		}
	}
}
