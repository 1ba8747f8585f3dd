package redis

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// The scripts are what must happen at one moment: Redis runs each alone.
var (
	//go:embed lua/leases.lua
	leasesLua string
	//go:embed lua/put.lua
	putLua string
	//go:embed lua/list.lua
	listLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/attach.lua
	attachLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/held.lua
	heldLua string
	//go:embed lua/meet.lua
	meetLua string
)

// scripts are those that a Store runs.
type scripts struct {
	put, list, acquire, attach, release, held, meet *redis.Script
}

func newScripts() scripts {
	of := func(text string) *redis.Script { return redis.NewScript(leasesLua + text) }
	return scripts{
		put: of(putLua), list: redis.NewScript(listLua), acquire: of(acquireLua), attach: of(attachLua),
		release: of(releaseLua), held: of(heldLua), meet: redis.NewScript(meetLua),
	}
}
