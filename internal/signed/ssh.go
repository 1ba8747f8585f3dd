package signed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// namespace is what git signs for: a signature that was made for a file or an e-mail is another.
const namespace = "git"

// minRSA is the least size of an RSA key, in bits.
const minRSA = 2048

// allowed is one line of allowed signers.
type allowed struct {
	principals    string
	key           ssh.PublicKey
	wire          []byte
	namespaces    []string // patterns; nil is every one
	after, before time.Time
}

// parseAllowed reads one line: principals, options, key type, key and comment.
func parseAllowed(line string) (a allowed, err error) {
	rest := ""
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		a.principals, rest, ok = strings.Cut(quoted, `"`)
		if !ok {
			return a, fmt.Errorf("the principals have no closing quote")
		}
	} else if a.principals, rest, ok = strings.Cut(strings.ReplaceAll(line, "\t", " "), " "); !ok {
		return a, fmt.Errorf("%s isn't a line of allowed signers: principals, options, key type, key", clip(line))
	}
	if a.principals == "" {
		return a, fmt.Errorf("the principals are empty: name who signs with the key")
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(rest)))
	if err != nil {
		return a, fmt.Errorf("the key of %s can't be read: write principals, options, key type, key", clip(a.principals))
	}
	if err := strong(key); err != nil {
		return a, fmt.Errorf("the key of %s: %w", clip(a.principals), err)
	}
	a.key, a.wire = key, key.Marshal()
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			a.namespaces = strings.Split(value, ",")
			for _, p := range a.namespaces {
				if _, err := path.Match(p, ""); err != nil || strings.ContainsAny(p, `[\`) {
					return a, fmt.Errorf("%s can't be a pattern of namespaces", clip(p))
				}
			}
		case "valid-after":
			a.after, err = moment(value)
		case "valid-before":
			a.before, err = moment(value)
		case "cert-authority":
			return a, fmt.Errorf("authorities of SSH certificates (cert-authority) aren't supported: list the keys that sign")
		default:
			return a, fmt.Errorf("the option %s is unknown", clip(name))
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// moment reads a time as ssh-keygen does: YYYYMMDD[HHMM[SS]], of this machine's zone unless a Z
// follows.
func moment(text string) (time.Time, error) {
	digits, utc := strings.CutSuffix(text, "Z")
	zone := time.Local
	if utc {
		zone = time.UTC
	}
	layouts := map[int]string{8: "20060102", 12: "200601021504", 14: "20060102150405"}
	t, err := time.ParseInLocation(layouts[len(digits)], digits, zone)
	if err != nil || layouts[len(digits)] == "" {
		return time.Time{}, fmt.Errorf("%s isn't a time: write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, and Z for UTC", clip(text))
	}
	return t, nil
}

// strong refuses kinds of keys that aren't believed.
func strong(key ssh.PublicKey) error {
	kinds := []string{ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256, ssh.KeyAlgoRSA}
	if !slices.Contains(kinds, key.Type()) {
		return fmt.Errorf("keys of type %s aren't taken: use one of %s", clip(key.Type()), strings.Join(kinds, ", "))
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
			return fmt.Errorf("an RSA key of %d bits isn't taken: use %d or more", r.N.BitLen(), minRSA)
		}
	}
	return nil
}

// magic begins a signature and what is signed.
const magic = "SSHSIG"

// sshSignature is a signature as PROTOCOL.sshsig of OpenSSH has it, after the magic.
type sshSignature struct {
	Version   uint32
	Key       []byte
	Namespace string
	Reserved  []byte
	Hash      string
	Signature []byte
}

// sshSigned is what is signed, after the magic.
type sshSigned struct {
	Namespace string
	Reserved  []byte
	Hash      string
	Sum       []byte
}

func parseSSH(text string) (sig sshSignature, key ssh.PublicKey, err error) {
	lines, err := unarmor(text, beginSSH, endSSH)
	if err != nil {
		return sig, nil, err
	}
	data, err := decodeLines(lines)
	if err != nil {
		return sig, nil, err
	}
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || ssh.Unmarshal(rest, &sig) != nil {
		return sig, nil, refuse("its signature isn't one of SSH")
	}
	switch {
	case sig.Version != 1:
		return sig, nil, refuse("its signature has the version %d of SSH's, which is unknown", sig.Version)
	case sig.Namespace != namespace:
		return sig, nil, refuse("its signature was made for %s, not for git", clip(sig.Namespace))
	case len(sig.Reserved) > 0:
		return sig, nil, refuse("its signature holds something that is unknown")
	}
	if key, err = ssh.ParsePublicKey(sig.Key); err != nil {
		return sig, nil, refuse("the key of its signature can't be read")
	}
	if err := strong(key); err != nil {
		return sig, nil, refuse("%v", err)
	}
	return sig, key, nil
}

// sshPayload is what is signed for the message.
func sshPayload(hash string, message []byte) ([]byte, error) {
	var sum []byte
	switch hash {
	case "sha256":
		s := sha256.Sum256(message)
		sum = s[:]
	case "sha512":
		s := sha512.Sum512(message)
		sum = s[:]
	default:
		return nil, refuse("its signature's digest algorithm %s isn't taken: use sha256 or sha512", clip(hash))
	}
	return append([]byte(magic), ssh.Marshal(sshSigned{Namespace: namespace, Hash: hash, Sum: sum})...), nil
}

func (k *Keys) verifySSH(o object, now time.Time) (Signer, error) {
	sig, key, err := parseSSH(o.signature)
	if err != nil {
		return Signer{}, err
	}
	by := Signer{Key: ssh.FingerprintSHA256(key)}
	signed, err := sshPayload(sig.Hash, o.payload)
	if err != nil {
		return Signer{}, err
	}
	var s ssh.Signature
	if err := ssh.Unmarshal(sig.Signature, &s); err != nil {
		return Signer{}, refuse("its signature isn't one of SSH")
	}
	hardware := strings.HasPrefix(key.Type(), "sk-")
	if !hardware && len(s.Rest) > 0 || s.Format == ssh.KeyAlgoRSA {
		return Signer{}, refuse("its signature has the format %s, which isn't taken", clip(s.Format))
	}
	if err := key.Verify(signed, &s); err != nil {
		return Signer{}, refuse("its signature doesn't hold: the %s was changed after it was signed", o.kind)
	}
	wire := key.Marshal()
	why := fmt.Sprintf("its key %s isn't one of those that are trusted", by.Key)
	for _, a := range k.ssh {
		if !bytes.Equal(a.wire, wire) {
			continue
		}
		if no := a.refuses(o, now); no != "" {
			why = fmt.Sprintf("the key %s of %s %s", by.Key, a.principals, no)
			continue
		}
		by.Name, by.Until = a.principals, a.before
		return by, nil
	}
	return Signer{}, refuse("%s", why)
}

// refuses says why the line doesn't make its key count for the object, "" where it does. A time
// in an object is what its author says: a key counts neither where it ended before that nor
// where it has ended by now.
func (a allowed) refuses(o object, now time.Time) string {
	if a.namespaces != nil && !slices.ContainsFunc(a.namespaces, func(p string) bool { ok, _ := path.Match(p, namespace); return ok }) {
		return "isn't for git"
	}
	for _, at := range []time.Time{o.at, now} {
		switch {
		case !a.after.IsZero() && at.Before(a.after):
			return "counts from " + a.after.UTC().Format(time.RFC3339) + " only"
		case !a.before.IsZero() && !at.Before(a.before):
			return "has counted until " + a.before.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// Key signs commits.
type Key struct{ signer ssh.Signer }

// NewKey makes the Ed25519 key of the seed of 32 bytes.
func NewKey(seed []byte) (*Key, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("key for signatures: the seed has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return nil, fmt.Errorf("key for signatures: %w", err)
	}
	return &Key{signer}, nil
}

// Allowed is the line by which allowed signers list the key, under a name without spaces.
func (k *Key) Allowed(name string) string {
	return fmt.Sprintf("%s namespaces=%q %s", name, namespace, bytes.TrimSpace(ssh.MarshalAuthorizedKey(k.signer.PublicKey())))
}

// Commit returns the commit with the key's signature. It must have none.
func (k *Key) Commit(raw []byte) ([]byte, error) {
	if o, err := splitCommit(raw); err != nil {
		return nil, err
	} else if o.signature != "" {
		return nil, fmt.Errorf("sign commit: it is signed already")
	}
	const hash = "sha512"
	payload, err := sshPayload(hash, raw)
	if err != nil {
		return nil, err
	}
	s, err := k.signer.Sign(nil, payload) // Ed25519 needs no randomness
	if err != nil {
		return nil, fmt.Errorf("sign commit: %w", err)
	}
	data := append([]byte(magic), ssh.Marshal(sshSignature{Version: 1, Key: k.signer.PublicKey().Marshal(), Namespace: namespace, Hash: hash, Signature: ssh.Marshal(s)})...)
	end := bytes.Index(raw, []byte("\n\n")) + 1
	var b bytes.Buffer
	b.Write(raw[:end])
	b.WriteString("gpgsig " + strings.TrimSuffix(beginSSH, "\n"))
	const width = 70
	for text := base64.StdEncoding.EncodeToString(data); text != ""; text = text[min(width, len(text)):] {
		b.WriteString("\n " + text[:min(width, len(text))])
	}
	b.WriteString("\n " + endSSH)
	b.Write(raw[end:])
	return b.Bytes(), nil
}
