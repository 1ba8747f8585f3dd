package audit

import (
	"fmt"
	"os"
	"os/user"
)

// HostUser is who does something on the host itself, as records have it.
func HostUser() string {
	if u, err := user.Current(); err == nil {
		return "local:" + u.Username
	}
	return fmt.Sprintf("local:%d", os.Getuid())
}
