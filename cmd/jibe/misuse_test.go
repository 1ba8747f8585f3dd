package main

import (
	"bytes"
	"strings"
	"testing"
)

// A script that misspells a command must not go on as if it had been done.
func TestACallThatIsNoneFailsAndSaysHowTheCommandIsCalled(t *testing.T) {
	for line, want := range map[string][]string{
		"get instnces":              {`unknown command "instnces" for "jibe get" (did you mean instance or instances?)`, "jibe get --help"},
		"rollout pauze amf":         {`unknown command "pauze" for "jibe rollout" (did you mean pause?)`, "jibe rollout --help"},
		"frobnicate":                {`unknown command "frobnicate" for "jibe"`, "jibe --help"},
		"hea":                       {"(did you mean get or heal?)"},
		"completion xsh":            {`unknown command "xsh"`, "(did you mean"},
		"upgrade amf":               {"received 1", "usage: jibe upgrade INSTANCE VNFD-ID"},
		"get instances --folde x":   {"unknown flag: --folde", "usage: jibe get instances"},
		"get -x":                    {"unknown shorthand flag", "usage: jibe get"},
		"heal":                      {"usage: jibe heal INSTANCE [VNFC…]", "jibe heal --help"},
		"secret encrypt --recpient": {"unknown flag: --recpient", "usage: jibe secret encrypt --recipient KEY"},
	} {
		root, args := newRoot(), strings.Fields(line)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		err := execution(t.Context(), root, args)
		if err == nil {
			t.Errorf("jibe %s succeeds: %s", line, out.String())
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("jibe %s: %q doesn't say %q", line, err, part)
			}
		}
	}
	for _, line := range []string{"", "--help", "get", "get --help", "help get", "version", "--version", "completion bash", "rollout -h", "help", "__complete get in", "__completeNoDesc get in"} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		if err := execution(t.Context(), root, strings.Fields(line)); err != nil || out.Len() == 0 {
			t.Errorf("jibe %s: %v", line, err)
		}
	}
}
