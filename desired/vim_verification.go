package desired

import (
	"fmt"
	"strconv"
	"strings"
)

// SkipVerification is the key in interfaceInfo by which a request asks that the certificate of
// its VIM isn't checked (ETSI NFV-SOL 003, VIM connection registries).
const SkipVerification = "skipCertificateVerification"

// SkipsVerification says whether the connection asks that its VIM's certificate isn't checked.
// A value that is neither true nor false is an error, which names the key.
func (c VIMConnection) SkipsVerification() (bool, error) {
	text, ok := c.InterfaceInfo[SkipVerification]
	if !ok || text == "" {
		return false, nil
	}
	skip, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		return false, fmt.Errorf("interfaceInfo.%s is neither true nor false", SkipVerification)
	}
	return skip, nil
}
