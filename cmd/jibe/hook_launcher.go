package main

import "github.com/jibe-vnfm/jibe/hooks/confine"

// launcher is the process between Jibe and a hook of a package, which confines it. It isn't for
// people, and nothing of a command line is made for it, as it must be the first thing that its
// process does. is says whether the arguments are its.
func launcher(args []string) (exit int, is bool) {
	if len(args) != 1 || args[0] != confine.Command {
		return 0, false
	}
	return confine.Main(), true
}
