package events

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// MaxPartitions bounds the number of partitions of a deployment: the last byte of a message id names its partition.
const MaxPartitions = 256

// Partition is a shard of the log. An instance lives in exactly one; order is promised inside an instance only.
type Partition uint8

// PartitionOf gives the partition of an instance in a deployment of n partitions: fnv1a64(instance id) mod n.
// n is fixed when a deployment is created (docs/adr/0001). It panics when n is not in 1..MaxPartitions.
func PartitionOf(instance string, n int) Partition {
	if n < 1 || n > MaxPartitions {
		panic("events: number of partitions out of range: " + strconv.Itoa(n))
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(instance))
	return Partition(h.Sum64() % uint64(n))
}

func (p Partition) String() string { return strconv.Itoa(int(p)) }

// Position is a place in the log: a sequence inside a partition. Its text form is "<p>:<sequence>".
type Position struct {
	Partition Partition
	Sequence  uint64
}

func (p Position) String() string {
	return p.Partition.String() + ":" + strconv.FormatUint(p.Sequence, 10)
}

// ParsePosition reads the text form of a position.
func ParsePosition(s string) (Position, error) {
	left, right, ok := strings.Cut(s, ":")
	if !ok {
		return Position{}, Errorf(CodeValidation, "a position has the form <partition>:<sequence>")
	}
	p, err := strconv.ParseUint(left, 10, 8)
	if err != nil || strconv.FormatUint(p, 10) != left {
		return Position{}, Errorf(CodeValidation, "the partition of a position is a number from 0 to 255")
	}
	seq, err := strconv.ParseUint(right, 10, 64)
	if err != nil || strconv.FormatUint(seq, 10) != right {
		return Position{}, Errorf(CodeValidation, "the sequence of a position is a number")
	}
	return Position{Partition(p), seq}, nil
}

// MarshalText writes the text form.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text form.
func (p *Position) UnmarshalText(b []byte) error {
	q, err := ParsePosition(string(b))
	if err == nil {
		*p = q
	}
	return err
}
