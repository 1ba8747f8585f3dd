package image

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/jibe-vnfm/jibe/packaging/internal/build"
	"github.com/jibe-vnfm/jibe/packaging/internal/debian"
)

// instruction is one of the Dockerfile.
type instruction struct {
	name  string // in upper case
	words []string
	flags []string
	list  bool // the words were given as a list, so that no shell sees them
}

type instructions []instruction

// dockerfile is what the Dockerfile says.
func dockerfile(t *testing.T) (all instructions) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "image", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("the parser warns: %s", w.Short)
	}
	for _, node := range parsed.AST.Children {
		i := instruction{name: strings.ToUpper(node.Value), flags: node.Flags, list: node.Attributes["json"]}
		for n := node.Next; n != nil; n = n.Next {
			i.words = append(i.words, n.Value)
		}
		all = append(all, i)
	}
	return all
}

// called are the instructions of a name.
func (all instructions) called(name string) instructions {
	return slices.DeleteFunc(slices.Clone(all), func(i instruction) bool { return i.name != name })
}

// system are those of the last stage, which the image is.
func (all instructions) system() instructions {
	for at := len(all) - 1; at > 0; at-- {
		if all[at].name == "FROM" {
			return all[at:]
		}
	}
	return all
}

// run is what the last stage has its shell do.
func (all instructions) run() (text string) {
	for _, i := range all.system().called("RUN") {
		text += strings.Join(i.words, " ") + " && "
	}
	return text
}

// argument is the default of an ARG.
func (all instructions) argument(name string) string {
	for _, i := range all.called("ARG") {
		if key, value, _ := strings.Cut(i.words[0], "="); key == name {
			return value
		}
	}
	return ""
}

// essential are packages that every Debian has, so that the Dockerfile needn't name them.
var essential = []string{"base-files", "dash"}

var (
	installs = regexp.MustCompile(`apt-get install ((?:-\S+ )*)([^&]+?)\s*&&`)
	goDirect = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
)

func TestTheDockerfileMakesTheSameSystemAsTheImageThatNeedsNoEngine(t *testing.T) {
	all := dockerfile(t)
	run := all.run()
	install := installs.FindStringSubmatch(run)
	if install == nil {
		t.Fatalf("it installs nothing: %s", run)
	}
	got := strings.Fields(install[2])
	want := slices.DeleteFunc(slices.Clone(wanted), func(p string) bool { return slices.Contains(essential, p) })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it installs %q, and the other image has %q", got, want)
	}
	if !strings.Contains(install[1], "--no-install-recommends") {
		t.Error("it installs what is only recommended, too")
	}
	if !strings.Contains(all.argument("SYSTEM"), "debian:"+debian.Codename) || !strings.Contains(all.argument("GO"), debian.Codename) {
		t.Errorf("it is made of %q and %q, and the other image of Debian's %s", all.argument("SYSTEM"), all.argument("GO"), debian.Codename)
	}
	module, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if version := goDirect.FindSubmatch(module); version == nil || !strings.HasPrefix(all.argument("GO"), "golang:"+string(version[1])+"-") {
		t.Errorf("it compiles by %q, and go.mod wants %q", all.argument("GO"), version)
	}
}

func TestTheDockerfilesImageIsRunAsTheOther(t *testing.T) {
	all := dockerfile(t)
	want := configOf(build.Release{})
	one := func(name string) []string {
		t.Helper()
		is := all.system().called(name)
		if len(is) != 1 {
			t.Fatalf("it has %d times %s, want one", len(is), name)
		}
		if !is[0].list && (name == "ENTRYPOINT" || name == "CMD") {
			t.Errorf("its %s is run by a shell, to which signals go", name)
		}
		return is[0].words
	}
	for name, is := range map[string][]string{
		"USER": {want.User}, "WORKDIR": {want.WorkingDir}, "ENTRYPOINT": want.Entrypoint, "CMD": want.Cmd,
		"VOLUME": slices.Collect(maps.Keys(want.Volumes)), "EXPOSE": {"9890"},
	} {
		if got := one(name); !slices.Equal(got, is) {
			t.Errorf("%s %q, and the other image has %q", name, got, is)
		}
	}
	if _, ok := want.ExposedPorts["9890/tcp"]; !ok {
		t.Errorf("the other image exposes %v", want.ExposedPorts)
	}
	env := map[string]string{}
	for words := one("ENV"); len(words) >= 3; words = words[3:] { // name, value, separator
		env[words[0]] = words[1]
	}
	for _, name := range []string{"HOME", "JIBE_DATA"} {
		if !slices.Contains(want.Env, name+"="+env[name]) {
			t.Errorf("ENV %s=%s, and the other image has %q", name, env[name], want.Env)
		}
	}
	// The user is known by name, and the data are its own, so that a new volume is, too.
	run := all.run()
	uid, gid, _ := strings.Cut(want.User, ":")
	for _, part := range []string{"groupadd --gid " + gid + " jibe", "useradd --uid " + uid + " --gid " + gid, "install -d -m 0750 -o jibe -g jibe " + dataDir} {
		if !strings.Contains(run, part) {
			t.Errorf("it lacks %q", part)
		}
	}
}

func TestTheDockerfileCopiesWhatIsThere(t *testing.T) {
	copies := dockerfile(t).called("COPY")
	for _, i := range copies {
		if len(i.flags) > 0 { // of another stage
			continue
		}
		for _, from := range i.words[:len(i.words)-1] {
			if _, err := os.Stat(filepath.Join("..", "..", "..", from)); err != nil {
				t.Errorf("it copies what isn't there: %v", err)
			}
		}
	}
	if len(copies) < 4 {
		t.Errorf("it copies %d times", len(copies))
	}
}
