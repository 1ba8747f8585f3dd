package gitname

import "testing"

func TestNamesThatAreReadAsDotGit(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".gIt": true, ".git ": true, ".git.": true, ".git . .": true, ".git::$INDEX_ALLOCATION": true, "git~1": true, "GIT~1": true, "GIT~1 .": true,
		".g\u200cit": true, "\ufeff.git": true, ".git\u202e": true,
		"git": false, ".gitx": false, ".git x": false, "git~2": false, ".gitignore": false, ".github": false, "..git": false, "": false, ".g\xffit": false,
	} {
		if got := IsDotGit(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
	for name, want := range map[string]bool{
		".gitmodules": true, ".GITMODULES": true, ".gitmodules .": true, "gitmod~1": true, "GI7EBA~1": true, ".git\u200cattributes": true, "gi7d29~10": true,
		".gitignore": false, "gitmodules": false, "a": false,
	} {
		if got := IsSpecial(name); got != want {
			t.Errorf("special: %q: %t", name, got)
		}
	}
}
