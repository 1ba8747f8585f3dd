package rest

import (
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	plainJSON   = "application/json"
	problemJSON = "application/problem+json"
	mergePatch  = "application/merge-patch+json"
)

func isJSON(media string) bool { return media == plainJSON || media == problemJSON }

// version is SOL013 clause 9.1.2: three numbers, and a suffix of the implementation after a
// dash.
var version = regexp.MustCompile(`^([1-9][0-9]*\.(?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*))(?:-impl:[^\s]+)?$`)

// negotiate returns the API version that the request asks for, and puts it into the answer's
// header (SOL013 clause 9.2.2).
func (a *API) negotiate(w http.ResponseWriter, r *http.Request) (string, error) {
	if len(a.about.Versions) == 0 {
		return "", nil
	}
	given := r.Header.Get("Version")
	have := "this API has version " + strings.Join(a.about.Versions, ", ")
	if given == "" {
		if a.about.VersionOptional {
			return a.about.Versions[0], nil
		}
		return "", Problem(http.StatusBadRequest, "'Version' HTTP header missing; %s", have)
	}
	m := version.FindStringSubmatch(given)
	if m == nil {
		return "", Problem(http.StatusBadRequest, "'Version' HTTP header %q is not of the form MAJOR.MINOR.PATCH; %s", given, have)
	}
	if !slices.Contains(a.about.Versions, m[1]) {
		return "", Problem(http.StatusNotAcceptable, "API version %s is not supported; %s", m[1], have)
	}
	w.Header().Set("Version", m[1])
	return m[1], nil
}

// checkAccept refuses a client that takes none of the media types that there are (SOL013
// clause 4.3).
func checkAccept(accept, gives []string) error {
	if len(gives) == 0 {
		gives = []string{plainJSON}
	}
	if len(accept) == 0 || slices.Contains(gives, "*/*") {
		return nil
	}
	given := strings.Join(accept, ",")
	for _, media := range gives {
		if takes(given, media) {
			return nil
		}
	}
	return Problem(http.StatusNotAcceptable, "Accept is %q, but answers are %s", strings.Join(accept, ", "), strings.Join(gives, " or "))
}

// takes says whether an Accept header allows the media type: what names it most closely counts.
func takes(accept, media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	ranks := []string{"*/*", kind + "/*", media}
	best, quality := -1, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		rank := slices.Index(ranks, name)
		if rank <= best {
			continue
		}
		q := 1.0
		if s, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				continue
			}
		}
		best, quality = rank, q
	}
	return best >= 0 && quality > 0
}

// checkContentType refuses bodies of other media types, and coded ones: nothing is gained by
// compressing a request, and a small one could become any amount of bytes. JSON may be called
// text/plain, as old clients do, and a merge patch by its own name: published descriptions
// of SOL003 disagree.
func checkContentType(r *http.Request, takes []string) error {
	if r.ContentLength == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete {
		return nil
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return Problem(http.StatusUnsupportedMediaType, "Content-Encoding is %q; send the body without any", coding)
	}
	h := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(h)
	use := plainJSON
	switch {
	case len(takes) > 0 && r.Method != http.MethodPatch:
		use = strings.Join(takes, " or ")
		for _, t := range takes {
			if kind, all := strings.CutSuffix(t, "*"); err == nil && (media == t || all && strings.HasPrefix(media, kind)) {
				return nil
			}
		}
	case r.Method == http.MethodPatch:
		use = mergePatch
		if err == nil && media == mergePatch {
			return nil
		}
		fallthrough
	default:
		if err == nil && (media == plainJSON || media == "text/plain") {
			return nil
		}
	}
	return Problem(http.StatusUnsupportedMediaType, "Content-Type is %q; use %s", h, use)
}
