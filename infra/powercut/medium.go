package powercut

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
)

const (
	pageSize   = 4096 // the unit in which a write is kept or lost
	sectorSize = 512  // what a disk writes whole or not at all
)

// ErrCut is the answer of a disk without power.
var ErrCut = errors.New("the power is off")

// Keep says what a power cut leaves of the pages that were written and not flushed.
type Keep string

// The ways of losing power.
const (
	KeepNone Keep = "none" // nothing
	KeepSome Keep = "some" // each page or not, by chance
	KeepTorn Keep = "torn" // each page, parts of it in sectors, or not, by chance
)

// Medium is a disk with a write cache. Reads see each write at once; only what was flushed is sure to survive a cut. Its
// methods are safe for concurrent use.
type Medium struct {
	size int64

	mu      sync.Mutex
	moved   *sync.Cond
	durable []byte
	cached  map[int64]*[pageSize]byte // written since the last flush, by page
	life    int                       // number of cuts survived
	stalled bool                      // flushes are no longer answered
	held    bool                      // the power fails: nobody is answered any more
}

// NewMedium makes an empty disk; size is a multiple of 4096 bytes. Its memory is taken as it is written.
func NewMedium(size int64) (*Medium, error) {
	if size <= 0 || size%pageSize != 0 {
		return nil, fmt.Errorf("make a medium: %d bytes are no whole pages of %d", size, pageSize)
	}
	m := &Medium{size: size, durable: make([]byte, size), cached: map[int64]*[pageSize]byte{}}
	m.moved = sync.NewCond(&m.mu)
	return m, nil
}

// Size of the disk in bytes.
func (m *Medium) Size() int64 { return m.size }

// Life numbers the time between two cuts. A handle of an earlier life gets ErrCut for ever.
func (m *Medium) Life() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

// alive waits while the power fails, and tells whether life goes on. The lock is held.
func (m *Medium) alive(life int) error {
	for m.held && m.life == life {
		m.moved.Wait()
	}
	if m.life != life {
		return ErrCut
	}
	return nil
}

// Read fills p from an offset; it is short only at the end of the disk.
func (m *Medium) Read(life int, p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(life); err != nil {
		return 0, err
	}
	if off < 0 || off >= m.size {
		return 0, io.EOF
	}
	n := copy(p, m.durable[off:])
	m.pages(off, int64(n), func(page, from, to, at int64) {
		if c := m.cached[page]; c != nil {
			copy(p[at:], c[from:to])
		}
	})
	return n, nil
}

// Write puts p into the cache.
func (m *Medium) Write(life int, p []byte, off int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(life); err != nil {
		return err
	}
	if off < 0 || off+int64(len(p)) > m.size {
		return fmt.Errorf("write %d bytes at %d of %d: %w", len(p), off, m.size, io.ErrShortWrite)
	}
	m.pages(off, int64(len(p)), func(page, from, to, at int64) {
		c := m.cached[page]
		if c == nil {
			c = new([pageSize]byte)
			copy(c[:], m.durable[page*pageSize:])
			m.cached[page] = c
		}
		copy(c[from:to], p[at:])
	})
	return nil
}

// Flush makes durable what was written before.
func (m *Medium) Flush(life int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.stalled && m.life == life {
		m.moved.Wait()
	}
	if err := m.alive(life); err != nil {
		return err
	}
	for page, c := range m.cached {
		copy(m.durable[page*pageSize:], c[:])
	}
	clear(m.cached)
	return nil
}

// Stall begins a cut that comes while the disk is busy: writes still reach its cache, and no flush ends any more.
func (m *Medium) Stall() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled = true
}

// Fail lets the power fail: from now on nothing is written, flushed, read or answered, until Cut.
func (m *Medium) Fail() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

// Loss says what became of the pages that a cut found unflushed.
type Loss struct {
	Unflushed int `json:"unflushed"`
	Kept      int `json:"kept"`
	Torn      int `json:"torn"`
}

// Cut ends a life: unflushed pages are kept as keep says, whoever waits is told ErrCut, and the next life begins.
func (m *Medium) Cut(keep Keep, draw *rand.Rand) Loss {
	m.mu.Lock()
	defer m.mu.Unlock()
	loss := Loss{Unflushed: len(m.cached)}
	for page, c := range m.cached {
		home := m.durable[page*pageSize : (page+1)*pageSize]
		switch choice := draw.IntN(6); {
		case keep == KeepNone:
		case keep == KeepTorn && choice < 2:
			for at := 0; at < pageSize; at += sectorSize {
				if draw.IntN(2) == 0 {
					copy(home[at:at+sectorSize], c[at:])
				}
			}
			loss.Torn++
		case choice < 3, keep == KeepTorn && choice < 4:
			copy(home, c[:])
			loss.Kept++
		}
	}
	clear(m.cached)
	m.stalled, m.held = false, false
	m.life++
	m.moved.Broadcast()
	return loss
}

// pages cuts a range at the borders of pages: from and to lie inside the page, at inside the range.
func (m *Medium) pages(off, n int64, each func(page, from, to, at int64)) {
	for at := int64(0); at < n; {
		page, from := (off+at)/pageSize, (off+at)%pageSize
		to := min(pageSize, from+n-at)
		each(page, from, to, at)
		at += to - from
	}
}
