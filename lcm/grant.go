package lcm

// Grant is what is known of an operation's grant by an NFVO (SOL003 v3.3.1 clause 9): what must
// outlive a crash, so that nobody is asked twice.
type Grant struct {
	// ID and Href are those of the grant, "" until it was given. An NFVO may name no Href.
	ID   string `json:"id,omitempty"`
	Href string `json:"href,omitempty"`
	// Location is where the NFVO is asked for a grant that it decides later.
	Location string `json:"location,omitempty"`
	// Uncommitted says that Text is still to be committed as the instance's granted.yaml, ""
	// being none. Secrets in it are encrypted.
	Uncommitted bool   `json:"uncommitted,omitempty"`
	Text        string `json:"text,omitempty"`
	// Asked is the commit that asked for the operation, where the grant made another one, which
	// the operation then brings about.
	Asked string `json:"asked,omitempty"`
}

// Given says whether the NFVO has granted the operation. nil isn't given.
func (g *Grant) Given() bool { return g != nil && g.ID != "" }
