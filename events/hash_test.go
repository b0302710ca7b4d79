package events

import (
	"fmt"
	"testing"
)

// Dispatchers of unlike versions must agree on it: shares of instances, and the gaps of a pace, follow from it.
func TestHashStaysAndSpreads(t *testing.T) {
	t.Parallel()
	for want, names := range map[uint64][]string{0x2c0bdbf481420f8: {"a"}, 0x717006df56f95e83: {"d-1", "inst-1"}} {
		if got := Hash(names...); got != want {
			t.Errorf("%q: %#x, want %#x", names, got, want)
		}
	}
	if Hash("ab", "c") == Hash("a", "bc") {
		t.Error("the border between names does not count")
	}
	var quarters [4]int
	const n = 4000
	for i := range n {
		quarters[Hash(fmt.Sprintf("name-%04d", i))>>62]++
	}
	for q, got := range quarters {
		if got < n/4-n/20 || got > n/4+n/20 {
			t.Errorf("quarter %d has %d of %d", q, got, n)
		}
	}
}
