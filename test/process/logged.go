package process

import (
	"bytes"
	"io"
	"strings"
)

// LogFrom is what the process has logged from an offset on, in whole lines, and where its next
// line begins.
func (s *Server) LogFrom(at int64) (lines string, next int64) {
	info, err := s.log.Stat()
	if err != nil {
		return "", at // never: the file is open
	}
	text, err := io.ReadAll(io.NewSectionReader(s.log, at, max(0, info.Size()-at)))
	if err != nil {
		return "", at
	}
	lines = string(text[:bytes.LastIndexByte(text, '\n')+1])
	return lines, at + int64(len(lines))
}

// Logged counts the lines of the whole log so far that have all of these texts in them; [Server.Log] is its end alone.
func (s *Server) Logged(texts ...string) (lines int) {
	log, _ := s.LogFrom(0)
	for line := range strings.Lines(log) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			lines++
		}
	}
	return lines
}
