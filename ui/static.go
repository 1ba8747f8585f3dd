package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
)

//go:embed static
var staticFiles embed.FS

// static are the files that pages refer to, under a path that has their hash: a browser keeps
// each for as long as it likes.
type static struct{ files map[string]staticFile }

type staticFile struct {
	kind, hash  string
	plain, zips []byte
}

func newStatic() (*static, error) {
	s := &static{files: map[string]staticFile{}}
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		f := staticFile{kind: mime.TypeByExtension(path.Ext(e.Name()))}
		if f.plain, err = staticFiles.ReadFile("static/" + e.Name()); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(f.plain)
		f.hash = hex.EncodeToString(sum[:8])
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(f.plain); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		f.zips = b.Bytes()
		s.files[e.Name()] = f
	}
	return s, nil
}

// path is where a file is served.
func (s *static) path(name string) string {
	return Root + "/static/" + s.files[name].hash + "/" + name
}

// serveStatic answers with a file. The page of a former version that asks for its own file gets
// the present one, which isn't kept.
func (s *Service) serveStatic(w http.ResponseWriter, r *http.Request) error {
	f, ok := s.static.files[r.PathValue("name")]
	if !ok {
		return s.notFound(w, r)
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", `"`+f.hash+`"`)
	h.Set("Vary", "Accept-Encoding")
	if r.PathValue("hash") == f.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	if r.Header.Get("If-None-Match") == `"`+f.hash+`"` {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := f.plain
	if acceptsGzip(r) && len(f.zips) < len(f.plain) {
		h.Set("Content-Encoding", "gzip")
		body = f.zips
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
	return nil
}
