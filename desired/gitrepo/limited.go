package gitrepo

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// limitedError says that the remote takes no more pushes for now.
type limitedError struct {
	// after is how long it asks to be left alone.
	after time.Duration
	err   error
}

func (e *limitedError) Error() string {
	return fmt.Sprintf("the remote limits pushes, and asks to wait for %s: %v", e.after, e.err)
}

func (e *limitedError) Unwrap() error { return e.err }

// maxTold bounds what a remote may ask for: a longer time is that of a person to look at.
const maxTold = 10 * time.Minute

// answers is how git tells of an answer over HTTP (GIT_TRACE_CURL): of its status, and of the field by which
// it says how long to wait (RFC 9110 clause 10.2.3, RFC 6585 clause 4). Servers give seconds there.
var (
	limitStatus = regexp.MustCompile(`<= Recv header: HTTP/[0-9.]+ (?:429|503)\b`)
	retryAfter  = regexp.MustCompile(`(?i)<= Recv header: retry-after: *([0-9]+)`)
)

// traced are the settings by which git writes the headers of answers to a file, without what is secret in
// those of requests.
func traced(file string) []string {
	return []string{"GIT_TRACE_CURL=" + file, "GIT_TRACE_CURL_NO_DATA=1", "GIT_TRACE_REDACT=1"}
}

// told reads from what git has written of a push that failed how long the remote asks to be left alone, 0
// where it doesn't.
func told(file string) time.Duration {
	text, err := os.ReadFile(file)
	if err != nil || !limitStatus.Match(text) {
		return 0
	}
	said := retryAfter.FindAllSubmatch(text, -1)
	if len(said) == 0 {
		return 0
	}
	n, err := strconv.Atoi(string(said[len(said)-1][1]))
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxTold)
}

// byHTTP says whether the remote is one that answers by HTTP.
func byHTTP(remote string) bool {
	return strings.HasPrefix(remote, "http://") || strings.HasPrefix(remote, "https://")
}
