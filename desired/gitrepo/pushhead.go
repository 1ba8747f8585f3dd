package gitrepo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
)

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
			return h, check.ErrNoPush
		case section > 0 && string(magic) == packMagic:
			h.pack = true
			return h, nil
		case section == maxSections:
			return h, check.ErrNoPush
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
		line, flush, err := check.ReadPacket(h.rest)
		if err != nil {
			return err
		}
		if flush {
			return nil
		}
		if lines > 2*check.MaxUpdates {
			return fmt.Errorf("it has more than %d refs", check.MaxUpdates)
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

// refuse answers the push as git would that can't take its objects, so that its client shows
// the reason.
func (h *pushHead) refuse(w http.ResponseWriter, why error) {
	if len(h.refs) == 0 || !slices.Contains(h.capabilities, "report-status") && !slices.Contains(h.capabilities, "report-status-v2") {
		http.Error(w, why.Error(), http.StatusBadRequest)
		return
	}
	reason := message.Line(why.Error())
	var report bytes.Buffer
	check.Packet(&report, "unpack "+reason+"\n")
	for _, ref := range h.refs {
		check.Packet(&report, "ng "+message.Clip(ref)+" refused by jibe\n")
	}
	report.WriteString("0000")
	var out bytes.Buffer
	if slices.Contains(h.capabilities, "side-band-64k") {
		check.Packet(&out, "\x02jibe refuses this push; nothing was changed:\n  "+reason+"\n")
		for chunk := range slices.Chunk(report.Bytes(), 60_000) {
			check.Packet(&out, "\x01"+string(chunk))
		}
		out.WriteString("0000")
	} else {
		out = report
	}
	w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(out.Bytes()) // a client that went away needs no answer
}
