package projector

import "container/list"

// lru keeps the most recently used entries, at most size of them. It is not safe for concurrent use.
type lru struct {
	size  int
	order *list.List // newest first
	byID  map[string]*list.Element
}

type lruItem struct {
	id    string
	entry entry
}

func newLRU(size int) *lru {
	return &lru{size: size, order: list.New(), byID: map[string]*list.Element{}}
}

func (c *lru) get(id string) (entry, bool) {
	e, ok := c.byID[id]
	if !ok {
		return entry{}, false
	}
	c.order.MoveToFront(e)
	item, _ := e.Value.(lruItem)
	return item.entry, true
}

func (c *lru) put(id string, v entry) {
	if e, ok := c.byID[id]; ok {
		e.Value = lruItem{id: id, entry: v}
		c.order.MoveToFront(e)
		return
	}
	c.byID[id] = c.order.PushFront(lruItem{id: id, entry: v})
	for c.order.Len() > c.size {
		oldest := c.order.Back()
		item, _ := c.order.Remove(oldest).(lruItem)
		delete(c.byID, item.id)
	}
}

func (c *lru) purge() {
	c.order.Init()
	clear(c.byID)
}
