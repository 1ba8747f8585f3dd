package gitrepo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// errNoPush is returned for a body that git's receive-pack wouldn't understand.
var errNoPush = errors.New("the request is no push as git sends it")

// maxSections is how many lists of lines stand before the pack: updates, and options.
const maxSections = 2

// pushHead is what a push says before its pack.
type pushHead struct {
	refs         []string
	capabilities []string
	// pack says that a pack follows in rest: a push that only deletes has none.
	pack bool
	rest *bufio.Reader
}

// readPushHead reads the updates of a push up to its pack (gitprotocol-pack, "Reference Update
// Request"). The head is never nil, so that the error can be answered to those refs that
// were read.
func readPushHead(body io.Reader) (*pushHead, error) {
	h := &pushHead{rest: bufio.NewReaderSize(body, 64<<10)}
	for section := 0; ; section++ {
		magic, err := h.rest.Peek(len(packMagic))
		switch {
		case errors.Is(err, io.EOF) && len(magic) == 0 && section > 0:
			return h, nil
		case err != nil:
			return h, errNoPush
		case section > 0 && string(magic) == packMagic:
			h.pack = true
			return h, nil
		case section == maxSections:
			return h, errNoPush
		}
		if err := h.readSection(section == 0); err != nil {
			return h, err
		}
	}
}

// readSection reads lines up to a flush. Git takes other packets without a line for the end of
// a section too, which no client sends: they are refused, so that the pack is never looked for
// elsewhere than where git does.
func (h *pushHead) readSection(updates bool) error {
	for lines := 0; ; lines++ {
		line, flush, err := readPacket(h.rest)
		if err != nil {
			return err
		}
		if flush {
			return nil
		}
		if lines > 2*maxUpdates {
			return fmt.Errorf("it has more than %d refs", maxUpdates)
		}
		if !updates {
			continue
		}
		text, capabilities, has := strings.Cut(line, "\x00")
		if has && h.capabilities == nil {
			h.capabilities = strings.Fields(capabilities)
		}
		if f := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 3); len(f) == 3 && len(f[0]) == 40 && len(f[1]) == 40 {
			h.refs = append(h.refs, f[2])
		}
	}
}

// readPacket reads one pkt-line.
func readPacket(r *bufio.Reader) (line string, flush bool, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", false, errNoPush
	}
	n, err := strconv.ParseUint(string(size[:]), 16, 16)
	switch {
	case err != nil:
		return "", false, errNoPush
	case n == 0:
		return "", true, nil
	case n < 4:
		return "", false, errNoPush
	}
	data := make([]byte, n-4)
	if _, err := io.ReadFull(r, data); err != nil {
		return "", false, errNoPush
	}
	return string(data), false, nil
}

// refuse answers the push as git would that can't take its objects, so that its client shows
// the reason.
func (h *pushHead) refuse(w http.ResponseWriter, why error) {
	if len(h.refs) == 0 || !slices.Contains(h.capabilities, "report-status") && !slices.Contains(h.capabilities, "report-status-v2") {
		http.Error(w, why.Error(), http.StatusBadRequest)
		return
	}
	reason := oneLine(why.Error())
	var report bytes.Buffer
	packet(&report, "unpack "+reason+"\n")
	for _, ref := range h.refs {
		packet(&report, "ng "+clip(ref)+" refused by jibe\n")
	}
	report.WriteString("0000")
	var out bytes.Buffer
	if slices.Contains(h.capabilities, "side-band-64k") {
		packet(&out, "\x02jibe refuses this push; nothing was changed:\n  "+reason+"\n")
		for chunk := range slices.Chunk(report.Bytes(), 60_000) {
			packet(&out, "\x01"+string(chunk))
		}
		out.WriteString("0000")
	} else {
		out = report
	}
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(out.Bytes()) // a client that went away needs no answer
}

func packet(b *bytes.Buffer, line string) { fmt.Fprintf(b, "%04x%s", len(line)+4, line) }
