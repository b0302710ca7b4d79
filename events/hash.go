package events

import "hash/fnv"

// Hash spreads names evenly over all numbers, the same in every process and for ever: FNV-1a of the names, a zero byte between them, then
// the mixing of SplitMix64, since FNV alone hardly moves its high bits for names that end alike. It keeps no secret.
func Hash(names ...string) uint64 {
	h := fnv.New64a()
	for i, name := range names {
		if i > 0 {
			_, _ = h.Write([]byte{0}) // never fails
		}
		_, _ = h.Write([]byte(name))
	}
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
