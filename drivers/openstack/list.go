package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/gophercloud/gophercloud/v2"
)

// readList reads a list of a service with all of its pages. The list stands under the key in the
// answer; id is that of an item, which is where the next page begins.
//
// The elements are those of gophercloud's typed packages, but their pagers aren't used for the
// lists that every look at the VIM reads. A pager decodes and encodes each page several times
// over. It also follows the link to the next page, by which a service behind a proxy often names
// an address that only the proxy reaches. And it reads only the first page where Heat gives no
// link.
func readList[T any](ctx context.Context, c *cloud, s service, key string, id func(*T) string, query url.Values, path ...string) ([]T, error) {
	limit, _ := strconv.Atoi(query.Get("limit")) // 0 where the service decides
	var all []T
	for {
		var answer map[string]json.RawMessage
		if err := c.get(ctx, s, &answer, query.Encode(), path...); err != nil {
			return nil, err
		}
		var page []T
		if err := json.Unmarshal(answer[key], &page); err != nil {
			return nil, c.unavailable(string(s), fmt.Errorf("it answers with no list of %s: %w", key, err))
		}
		var links []gophercloud.Link
		if text, ok := answer[key+"_links"]; ok {
			if err := json.Unmarshal(text, &links); err != nil {
				return nil, c.unavailable(string(s), fmt.Errorf("the links of its list of %s: %w", key, err))
			}
		}
		all = append(all, page...)
		more := slices.ContainsFunc(links, func(l gophercloud.Link) bool { return l.Rel == "next" }) || limit > 0 && len(page) == limit
		if !more || len(page) == 0 {
			return all, nil
		}
		query.Set("marker", id(&page[len(page)-1]))
	}
}
