// Command launcher confines a hook as jibe does. The tests of package hooks start it in place of jibe, or
// of their own program: a program of this size starts in a third of the time, and each run starts two.
package main

import (
	"os"

	"github.com/jibe-vnfm/jibe/hooks/confine"
)

func main() { os.Exit(confine.Main()) }
