package main

import "context"

// page is what a list shows at once.
type page struct {
	list  []object
	left  int               // how many more there are
	names map[string]string // of instances, by id
}

// pageOf is the beginning of a list, all of it where most is 0.
func pageOf(list []object, most int) *page {
	p := &page{list: list}
	if most > 0 && len(list) > most {
		p.list, p.left = list[:most], len(list)-most
	}
	if p.list == nil {
		p.list = []object{}
	}
	return p
}

// fill gets more of what the page shows. What has gone meanwhile is left out.
func (p *page) fill(ctx context.Context, c *client, path, selector string) error {
	var ids []string
	for _, o := range p.list {
		ids = append(ids, text(o, "id"))
	}
	found, err := c.byID(ctx, path, selector, ids)
	if err != nil {
		return err
	}
	whole := []object{}
	for _, brief := range p.list {
		o, there := found[text(brief, "id")]
		if !there {
			continue
		}
		if dir := dig(brief, "jibe")["directory"]; dir != nil {
			about := dig(o, "jibe")
			if about == nil {
				about = object{}
				o["jibe"] = about
			}
			about["directory"] = dir
		}
		whole = append(whole, o)
	}
	p.list = whole
	return nil
}
