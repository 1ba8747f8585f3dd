package signed

import (
	"encoding/base64"
	"strings"
)

// The lines that begin and end a signature.
const (
	beginSSH = "-----BEGIN SSH SIGNATURE-----\n"
	endSSH   = "-----END SSH SIGNATURE-----\n"
	beginPGP = "-----BEGIN PGP SIGNATURE-----\n"
	endPGP   = "-----END PGP SIGNATURE-----\n"
)

// unarmor returns the lines between begin and end. Nothing may follow.
func unarmor(text, begin, end string) ([]string, error) {
	body, ok := strings.CutPrefix(text, begin)
	if ok {
		body, ok = strings.CutSuffix(body, "\n"+end)
	}
	if !ok {
		return nil, refuse("its signature has no end, or something follows")
	}
	return strings.Split(body, "\n"), nil
}

// decodeLines decodes base64 in lines of one width, of which only the last may be shorter. There
// is one way to write each content in a width.
func decodeLines(lines []string) ([]byte, error) {
	for i, line := range lines {
		if line == "" || strings.ContainsRune(line, '\r') || len(line) > len(lines[0]) || len(line) < len(lines[0]) && i < len(lines)-1 {
			return nil, refuse("its signature isn't written in lines of one width")
		}
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.Join(lines, ""))
	if err != nil {
		return nil, refuse("its signature isn't base64")
	}
	return data, nil
}

// crc24 is the checksum of OpenPGP's armour (RFC 4880 clause 6.1).
func crc24(data []byte) uint32 {
	crc := uint32(0xb704ce)
	for _, b := range data {
		crc ^= uint32(b) << 16
		for range 8 {
			if crc <<= 1; crc&0x1000000 != 0 {
				crc ^= 0x1864cfb
			}
		}
	}
	return crc & 0xffffff
}
