package process

import (
	"bufio"
	"io"
	"strings"
)

// Logged counts the lines of the whole log so far that have all of these texts in them; [Server.Log] is its end alone.
func (s *Server) Logged(texts ...string) (lines int) {
	info, err := s.log.Stat()
	if err != nil {
		return 0
	}
	for log := bufio.NewReader(io.NewSectionReader(s.log, 0, info.Size())); ; {
		line, err := log.ReadString('\n')
		has := line != ""
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			lines++
		}
		if err != nil {
			return lines
		}
	}
}
