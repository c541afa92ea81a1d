package layouts

import (
	"slices"

	"achbridge/bridge/layout"
	"achbridge/bridge/stamps"
	"achbridge/wire"
)

// Cache holds the layouts that peers have sent. The zero value is an empty cache, ready for use.
type Cache struct {
	list []cachedLayout // ordered by last use, the most recent last
}

type cachedLayout struct {
	hash    wire.Hash
	encoded []byte
	fit     layout.Fit
	stamps  stamps.Rule // fields that look like time stamps
}

// maxCached is how many layouts a Cache keeps. A layout has at most wire.MaxLayout bytes.
const maxCached = 256

// Len returns the number of layouts in the cache.
func (c *Cache) Len() int { return len(c.list) }

// Encoded returns a layout, or nil if it is not in the cache. It marks the layout as used.
func (c *Cache) Encoded(hash wire.Hash) []byte {
	i := slices.IndexFunc(c.list, func(l cachedLayout) bool { return l.hash == hash })
	if i < 0 {
		return nil
	}
	l := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), l)
	return l.encoded
}

// Fit returns which frames fit a layout, or nil if the layout is not in the cache.
func (c *Cache) Fit(hash wire.Hash) *layout.Fit {
	for _, l := range c.list {
		if l.hash == hash {
			return &l.fit
		}
	}
	return nil
}

// Stamps returns the rule for fields of a layout that look like time stamps, "" if there are none, or if the layout is not
// in the cache.
func (c *Cache) Stamps(hash wire.Hash) stamps.Rule {
	for _, l := range c.list {
		if l.hash == hash {
			return l.stamps
		}
	}
	return ""
}

// add adds a layout. If the cache is full, the layout replaces the least recently used one.
func (c *Cache) add(one cachedLayout) {
	if len(c.list) >= maxCached {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, one)
}
