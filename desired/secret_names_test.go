package desired_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestOneRuleKnowsTheNamesOfSecretsHoweverTheyAreSpelled(t *testing.T) {
	secret := `password Password PASSWORD db_password dbPassword DB_PASSWORD db-password dbpassword passwords user.password passwordOld password1
		passwd rootPasswd passphrase sshPassphrase key_passphrase passcode pass user_pass smtpPass pwd DB_PWD
		secret client_secret clientSecret mysecret secrets secretKey secret_id applicationCredentialSecret secretData
		token bearer_token accessToken ACCESS_TOKEN token2 tokens authToken tokenValue x-auth-token
		api_key apiKey api-key APIKey API_KEY apikey ApiKeys api_key_2 api_key_of_billing sshKey ssh_key SSHKey SSH_KEY ssh_keys
		privateKey private_key private-key privatekey PRIVATE_KEY ssh_private_key privateKeyPem client_key clientKey tls_key encryptionKey signing_key
		access_key secretAccessKey licenseKey host_key preshared_key psk
		pin PIN sim_pin simPin pin_code pinCode pins pinNumber
		ki Ki KI subscriber_ki opc OPc milenageOpc op OP k4 K4 subscriberKey subscriber_key transport_key opKey privkey ssh_privkey dbpass db_pass DBPASS mysqlpass
		dsn DSN database_dsn cred creds dbCred otp simOtp community snmp_community snmpCommunity communityString user_data userData userdata
		auth nested.auth basicAuth basic_auth authorization credential credentials userCredentials creds`
	clear := `username user name project namespace pinned spinner pinning pins_per_node pinCount cpu_pinning tokenizer tokenizers tokenize max_tokens
		keyName key_name sshKeyName publicKey public_key ssh_public_key public_ssh_key authorized_keys key_pair keypair keyPair ssh_keypair key key1 keys
		primaryKey foreign_key partition_key keystone_domain keystone monkey keyboard
		secretName secret_name secretRef secretKeyRef secret_namespace imagePullSecrets image_pull_secret configmap_secret_paths secretPath secret_files
		tokenUrl oidc_token_url tokenEndpoint token_path token_ttl tokenExpiry passwordPolicy password_length passwordFile auth_url authUrl auth_type authMethod
		credentialId applicationCredentialId access_key_id author authors authority authenticator certificate cert ssl_ca_cert client_cert caCert
		bgp_community extendedCommunity standard-community communities communityName kit kilo wiki shop stop_op operation opcode otpUrl lcm-operation-user-data-class user_data_format k 4 mode_op
		compass passenger bypass passive passThrough pass_through pinholes strict_host_key_checking author_name
		lcm-kubernetes-def-files lcm-operation-user-data flavour image network metadata 42 _ - `
	for _, name := range append(strings.Fields(secret), "API KEY") {
		if !desired.IsSecretKey(name) {
			t.Errorf("%q isn't taken for a secret", name)
		}
	}
	for _, name := range append(strings.Fields(clear), "", " ") {
		if desired.IsSecretKey(name) {
			t.Errorf("%q is taken for a secret", name)
		}
	}
}

func TestNamesThatAreDeclaredCountInAnySpelling(t *testing.T) {
	var none desired.SecretNames
	names := none.With("snmp_contact", "SipAccount").With("magic-word")
	for name, want := range map[string]bool{
		"snmp_contact": true, "snmpContact": true, "SNMP-CONTACT": true, "sip_account": true, "magicWord": true, "password": true,
		"contact": false, "snmp": false, "magic": false, "secretName": false,
	} {
		if names.Match(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if none.Match("snmp_contact") {
		t.Error("declaring altered the rule itself")
	}
}

const (
	pem = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
	jwt = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ2bmYtMSJ9.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	crt = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ29tcGxldGVseUZha2U=\n-----END CERTIFICATE-----\n"
)

func TestPrivateKeysAndWebTokensAreSecretsWhateverTheirNameIs(t *testing.T) {
	for what, v := range map[string]string{
		"PEM":                       pem,
		"PKCS1":                     "-----BEGIN RSA PRIVATE KEY-----\nMII\n",
		"PKCS8":                     "-----BEGIN PRIVATE KEY-----",
		"encrypted":                 "-----BEGIN ENCRYPTED PRIVATE KEY-----",
		"PGP":                       "-----BEGIN PGP PRIVATE KEY BLOCK-----",
		"age":                       "AGE-SECRET-KEY-1QQQ",
		"folded to one line":        strings.ReplaceAll(pem, "\n", " "),
		"behind a certificate":      crt + pem,
		"in base64":                 base64Of(pem),
		"in base64 url":             base64URL(crt + pem),
		"wrapped base64":            wrapped(base64Of(crt + pem)),
		"in a kubeconfig":           "users:\n- user:\n    client-key-data: " + base64Of(pem) + "\n",
		"a kubeconfig in base64":    base64Of("users:\n- user:\n    client-key-data: " + base64Of(pem) + "\n"),
		"cloud-init":                "#cloud-config\nwrite_files:\n- content: |\n    " + pem,
		"web token":                 jwt,
		"web token in a header":     "Authorization: Bearer " + jwt,
		"web token in base64":       base64Of(`{"token":"` + jwt + `"}`),
		"unsigned web token":        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ2bmYtMSJ9.",
		"web token at the very end": "x=" + jwt,
	} {
		if !desired.IsSecretValue(v) {
			t.Errorf("%s isn't taken for a secret", what)
		}
	}
	for what, v := range map[string]string{
		"nothing": "", "text": "amf", "certificate": crt, "certificate in base64": base64Of(crt), "public key": "-----BEGIN PUBLIC KEY-----\nMII\n",
		"ssh public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJj", "tree hash": strings.Repeat("0a", 20), "three words": "eyJub3RhbGciOjF9.abcdefgh.ijk",
		"host name": "eyJabc.example.org", "long word": strings.Repeat("a", 300), "reference": "env:NAME",
	} {
		if desired.IsSecretValue(v) {
			t.Errorf("%s is taken for a secret", what)
		}
	}
}

func TestWhatStandsBelowASecretsNameIsSecretToo(t *testing.T) {
	names := desired.SecretNames{}.With("community")
	in := map[string]any{
		"namespace": "amf", "password": "p", "pin": int64(1234), "auth": map[string]any{"user": "u", "key": "k"},
		"nested": map[string]any{"auth": []any{"a", "b"}, "keep": true}, "cert": crt + pem, "ca": crt, "community": "c",
		"env":        []any{map[string]any{"name": "DB_PASSWORD", "value": "v"}, map[string]any{"name": "MODE", "value": "fast"}},
		"note":       []any{"plain", jwt, "env:SECRET"},
		"ref":        "age:abc",
		"tokens":     true,
		"secretRef":  map[string]any{"name": "login"},
		"passphrase": nil,
	}
	want := map[string]any{
		"namespace": "amf", "nested": map[string]any{"keep": true}, "ca": crt,
		"env":  []any{map[string]any{"name": "DB_PASSWORD"}, map[string]any{"name": "MODE", "value": "fast"}},
		"note": []any{"plain"}, "tokens": true, "secretRef": map[string]any{"name": "login"}, "passphrase": nil,
	}
	if diff := cmp.Diff(any(want), names.Strip(in)); diff != "" {
		t.Error(diff)
	}
	var found []string
	for _, s := range names.Find(in) {
		found = append(found, s.Where())
	}
	if diff := cmp.Diff([]string{"auth.key", "auth.user", "cert", "community", "env[0].value", "nested.auth[0]", "nested.auth[1]",
		"note[1]", "note[2]", "password", "pin", "ref"}, found); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(names.Strip(in), names.Strip(names.Strip(in))); diff != "" {
		t.Errorf("twice isn't the same as once: %s", diff)
	}
}

func base64Of(s string) string  { return base64.StdEncoding.EncodeToString([]byte(s)) }
func base64URL(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func wrapped(s string) string {
	var b strings.Builder
	for len(s) > 64 {
		b.WriteString(s[:64] + "\n")
		s = s[64:]
	}
	return b.String() + s + "\n"
}

func TestASecretInClearIsToldByItsLineAndNeverByItsValue(t *testing.T) {
	const before = `vnfdId: x
params:
  password: stood-there
  users: [{name: a, token: stood-too}]
`
	const after = `vnfdId: x
params:
  # moved, and one more in front
  users:
  - {name: b, token: brought-1}
  - {name: a, token: stood-too}
  password: stood-there
  sealed: {api_key: "age:abc", file: "file:/run/x"}
  pin: 4711
metadata:
  cert: |
    -----BEGIN PRIVATE KEY-----
    brought-2
update:
  strategy: rolling
vimConnectionInfo:
  v:
    vimType: sim
    extra: {secret: brought-3}
`
	was, err := desired.ParseInstance("instances/a/vnf.yaml", []byte(before))
	if err != nil {
		t.Fatal(err)
	}
	is, err := desired.ParseInstance("instances/a/vnf.yaml", []byte(after))
	if err != nil {
		t.Fatal(err)
	}
	said := func(problems []*desired.Problem) (lines []string) {
		for _, p := range problems {
			text := p.Error()
			for _, value := range []string{"brought", "stood", "4711"} {
				if strings.Contains(text, value) {
					t.Errorf("a value is told: %s", text)
				}
			}
			if !strings.Contains(text, "jibe secret encrypt") {
				t.Errorf("no way out is told: %s", text)
			}
			line, _, _ := strings.Cut(text, " is a secret")
			lines = append(lines, line)
		}
		return lines
	}
	added, left := desired.Exposed("instances/a/vnf.yaml", []byte(after), was, is, desired.SecretNames{})
	if diff := cmp.Diff([]string{`instances/a/vnf.yaml:9: "params.pin"`, `instances/a/vnf.yaml:5: "params.users[0].token"`,
		`instances/a/vnf.yaml:11: "metadata.cert"`, `instances/a/vnf.yaml:19: "vimConnectionInfo.v.extra.secret"`}, said(added)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`instances/a/vnf.yaml:7: "params.password"`, `instances/a/vnf.yaml:6: "params.users[1].token"`}, said(left)); diff != "" {
		t.Error(diff)
	}
	if added, left := desired.Exposed("f", []byte(after), nil, is, desired.SecretNames{}); len(added) != 6 || len(left) != 0 {
		t.Errorf("of a new file %d are new and %d were there", len(added), len(left))
	}
}
