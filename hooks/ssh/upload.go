package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// writeScript: $1 is the target, $2 the temporary file. A connection that is cut looks
	// like the end of the input; nobody takes the count then, and the file goes.
	writeScript = `if [ -d "$1" ]; then echo "$1 is a directory" >&2; exit 1; fi; umask 077; set -C; ` +
		`{ cat >"$2" && wc -c <"$2"; } || { rm -f "$2"; exit 1; }`
	// moveScript: $3 is the mode.
	moveScript   = `chmod "$3" "$2" && mv -f "$2" "$1"`
	removeScript = `rm -f "$2"`
	// removeTime bounds how long a temporary file is cleared away.
	removeTime = 5 * time.Second
)

// Upload writes a file on the host, as the user who is logged in. Others see what was
// there before or all of it: it is written beside its target, and moved there when it has
// arrived whole. A relative path begins at the login directory. Of the mode, the
// permissions are set. The file is a new one: owner and links of a former one are not
// kept. Where ctx or the connection ends, the target is left as it was, unless that happens
// while the file is being moved.
func (c *Conn) Upload(ctx context.Context, from io.Reader, to string, mode fs.FileMode) error {
	temporary, err := beside(to)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if strings.HasPrefix(to, "-") {
		to = "./" + to // a name, not an option
	}
	fail := func(err error) error { return fmt.Errorf("upload %s to %s: %w", to, c.host, err) }
	script := func(text string) Command {
		return Command{Cmd: Quote("sh", "-c", text, "sh", to, temporary, fmt.Sprintf("%04o", mode.Perm()))}
	}
	write := script(writeScript)
	sent := &counter{Reader: from}
	write.Stdin = sent
	said, err := c.Output(ctx, write, 1<<10)
	if err == nil {
		arrived, parseErr := strconv.ParseInt(strings.TrimSpace(string(said)), 10, 64)
		if parseErr != nil || arrived != sent.bytes.Load() {
			err = fmt.Errorf("%d bytes were sent, %q arrived", sent.bytes.Load(), strings.TrimSpace(string(said)))
		}
	}
	if err == nil {
		if err = c.Run(ctx, script(moveScript)); err == nil {
			return nil
		}
	}
	if c.lost() == nil {
		clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		// What matters is why the file isn't there.
		_ = c.Run(clear, script(removeScript))
	}
	return fail(err)
}

// beside names a temporary file in the directory of another.
func beside(name string) (string, error) {
	dir, base := path.Split(name)
	switch {
	case base == "", base == ".", base == "..":
		return "", fmt.Errorf("%q names no file: name one, not its directory", name)
	case strings.ContainsRune(name, 0):
		return "", errors.New("the path holds a zero byte")
	}
	if dir == "" || strings.HasPrefix(dir, "-") {
		dir = "./" + dir
	}
	// Names of files are no longer than 255 bytes.
	return dir + "." + base[:min(len(base), 200)] + ".part-" + rand.Text(), nil
}

type counter struct {
	io.Reader
	bytes atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}
