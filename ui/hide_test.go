package ui

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// difference are lines that begin with their sign.
func difference(text string) []read.DiffLine {
	var lines []read.DiffLine
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		lines = append(lines, read.DiffLine{Op: line[0], Text: line[1:]})
	}
	return lines
}

func TestSecretsInClearAreHiddenInDifferences(t *testing.T) {
	for name, c := range map[string]struct{ diff, want string }{
		"a value": {`
 params:
-  password: hunter1
+  password: hunter2
   size: 3`, `
 params:
-  password: (hidden)
+  password: (hidden)
   size: 3`},
		"references and what is encrypted stay": {`
-  password: hunter1
+  password: env:DB_PASSWORD
+  token: age:YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0-IFgyNTUxOSBhYmM
+  apiKey: "file:/run/secrets/key"`, `
-  password: (hidden)
+  password: env:DB_PASSWORD
+  token: age:YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0-IFgyNTUxOSBhYmM
+  apiKey: "file:/run/secrets/key"`},
		"the key is the same and its block differs": {`
   password: |
-    hunter1
+    hunter2
 
     and more
   size: 3`, `
   password: |
-    (hidden)
+    (hidden)
 
     (hidden)
   size: 3`},
		"far below its key": {`
 tokens:
   a: 1
   b: 2
   c: 3
   d: 4
-  e: hunter1
+  e: hunter2
 size: 3`, `
 tokens:
   (hidden)
   (hidden)
   (hidden)
   (hidden)
-  (hidden)
+  (hidden)
 size: 3`},
		"a list in the key's own column": {`
 passwords:
 - hunter1
+- hunter2
 others:
 - x`, `
 passwords:
 (hidden)
+(hidden)
 others:
 - x`},
		"text that goes on": {`
+password: "hunter
+  two"
+password : hunter3
+size: 1`, `
+password: (hidden)
+  (hidden)
+password : (hidden)
+size: 1`},
		"on one line, as JSON, in a list and in a comment": {`
+db: {user: me, password: hunter2, size: 3}
+{"password": "hunter2", "size": 3}
+- {a: 1, token: hunter2}
+- size: 3
+# password: hunter2`, `
+db: {user: me, password: (hidden)
+{"password": (hidden)
+- {a: 1, token: (hidden)
+- size: 3
+# password: (hidden)`},
		"a key within an item": {`
 - token:
     hunter2
   size: 3`, `
 - token:
     (hidden)
   size: 3`},
		"a Secret of Kubernetes, and no ConfigMap": {`
 kind: ConfigMap
 data:
+  colour: blue
   text: |
+    plain
 ---
 data:
   db: aHVudGVyMQ==
-  cert: old
+  cert: |
+    hunter2
   external: env:NAME
 kind: Secret
 metadata: {name: x}
 stringData: {a: hunter3}
 type: Opaque`, `
 kind: ConfigMap
 data:
+  colour: blue
   text: |
+    plain
 ---
 data:
   db: (hidden)
-  cert: (hidden)
+  cert: (hidden)
+    (hidden)
   external: env:NAME
 kind: Secret
 metadata: {name: x}
 stringData: (hidden)
 type: Opaque`},
		"what was a Secret": {`
-kind: Secret
+kind: ConfigMap
 data:
   a: hunter1
+  b: 2`, `
-kind: Secret
+kind: ConfigMap
 data:
   a: (hidden)
+  b: 2`},
		"an environment": {`
 env:
 - name: DB_PASSWORD
   value: hunter1
 - name: SIZE
   value: "3"
 - {name: API_TOKEN, value: hunter2}`, `
 env:
 - name: DB_PASSWORD
   value: (hidden)
 - name: SIZE
   value: "3"
 - {name: API_TOKEN, value: (hidden)`},
		"a private key under any name": {`
 config: |
   line 1
+  -----BEGIN RSA PRIVATE KEY-----
+  hunter2
+  -----END RSA PRIVATE KEY-----
   line 2`, `
 config: |
   line 1
+  (hidden)
+  (hidden)
+  (hidden)
   line 2`},
		"names that the package declares": {`
+ki: hunter2
+opc: [hunter3]
+kilo: 3`, `
+ki: (hidden)
+opc: (hidden)
+kilo: 3`},
		"no secrets": {`
 passwordPolicy: strict
+secretName: tls
+imagePullSecrets: [{name: registry}]
+url: https://h:8080/x`, `
 passwordPolicy: strict
+secretName: tls
+imagePullSecrets: [{name: registry}]
+url: https://h:8080/x`},
	} {
		lines := difference(c.diff)
		Hide(desired.SecretNames{}.With("ki", "opc"))(lines)
		var got strings.Builder
		for _, l := range lines {
			got.WriteString("\n" + string(l.Op) + l.Text)
		}
		if got.String() != strings.TrimRight(c.want, "\n") {
			t.Errorf("%s:%s\nwant:%s", name, got.String(), c.want)
		}
	}
}

func TestADifferenceHidesWhatIsFarFromItsKey(t *testing.T) {
	was := "tokens:\n" + strings.Repeat("  a: b\n", 20) + "  z: hunter1\nsize: 1\n"
	now := strings.Replace(was, "hunter1", "hunter2", 1)
	d := diffFiles("instances/x", desired.Files{"vnf.yaml": []byte(was)}, desired.Files{"vnf.yaml": []byte(now)}, Hide(desired.SecretNames{}))
	if len(d) != 1 || len(d[0].Lines) < 3 || d[0].Lines[0].Text != "@@ -19 +19 @@" {
		t.Fatalf("the difference: %+v", d)
	}
	for _, l := range d[0].Lines {
		if strings.Contains(l.Text, "hunter") {
			t.Errorf("a secret is shown: %q", l.Text)
		}
	}
}
