package powercut

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The medium against two plain arrays: what is seen, and what was flushed.
func TestMediumKeepsWhatWasFlushed(t *testing.T) {
	t.Parallel()
	const size = 8 * pageSize
	rapid.Check(t, func(t *rapid.T) {
		m, err := NewMedium(size)
		if err != nil {
			t.Fatal(err)
		}
		draw := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		seen, flushed := make([]byte, size), make([]byte, size)
		check := func(want []byte) {
			got := make([]byte, size)
			if n, err := m.Read(m.Life(), got, 0); n != size || err != nil || !bytes.Equal(got, want) {
				t.Fatalf("read %d, %v: not what was written", n, err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				off := rapid.IntRange(0, size-1).Draw(t, "off")
				p := rapid.SliceOfN(rapid.Byte(), 1, min(3*pageSize, size-off)).Draw(t, "p")
				if err := m.Write(m.Life(), p, int64(off)); err != nil {
					t.Fatal(err)
				}
				copy(seen[off:], p)
			},
			"flush": func(t *rapid.T) {
				if err := m.Flush(m.Life()); err != nil {
					t.Fatal(err)
				}
				copy(flushed, seen)
			},
			"cut": func(t *rapid.T) {
				keep := rapid.SampledFrom([]Keep{KeepNone, KeepSome, KeepTorn}).Draw(t, "keep")
				old := m.Life()
				m.Fail()
				loss := m.Cut(keep, draw)
				if err := m.Write(old, []byte{1}, 0); !errors.Is(err, ErrCut) {
					t.Fatalf("a write of an earlier life = %v", err)
				}
				got := make([]byte, size)
				if _, err := m.Read(m.Life(), got, 0); err != nil {
					t.Fatal(err)
				}
				for at := 0; at < size; at += sectorSize {
					s := got[at : at+sectorSize]
					if !bytes.Equal(s, flushed[at:at+sectorSize]) && (keep == KeepNone || !bytes.Equal(s, seen[at:at+sectorSize])) {
						t.Fatalf("keep %s: the sector at %d is neither the flushed nor the written one", keep, at)
					}
				}
				if loss.Kept+loss.Torn > loss.Unflushed || (keep == KeepNone && loss.Kept+loss.Torn > 0) || (keep == KeepSome && loss.Torn > 0) {
					t.Fatalf("keep %s: %+v", keep, loss)
				}
				copy(seen, got)
				copy(flushed, got)
			},
			"": func(*rapid.T) { check(seen) },
		})
	})
}

func TestMediumLosesByChance(t *testing.T) {
	t.Parallel()
	const pages = 600
	for keep, want := range map[Keep][3]int{KeepNone: {0, 0, 0}, KeepSome: {pages / 2, 0, pages / 2}, KeepTorn: {pages / 3, pages / 3, pages / 3}} {
		m, err := NewMedium(pages * pageSize)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Write(0, bytes.Repeat([]byte{7}, pages*pageSize), 0); err != nil {
			t.Fatal(err)
		}
		loss := m.Cut(keep, rand.New(rand.NewPCG(1, 2)))
		near := func(have, want int) bool { return have > want*7/10 && have < want*13/10 || want == 0 && have == 0 }
		if loss.Unflushed != pages || !near(loss.Kept, want[0]) || !near(loss.Torn, want[1]) {
			t.Errorf("keep %s: %+v, want about %v", keep, loss, want)
		}
	}
}

func TestNobodyIsAnsweredWhileThePowerFails(t *testing.T) {
	t.Parallel()
	m, err := NewMedium(pageSize)
	if err != nil {
		t.Fatal(err)
	}
	m.Fail()
	answers := make(chan error, 3)
	go func() { answers <- m.Write(0, []byte("late"), 0) }()
	go func() { answers <- m.Flush(0) }()
	go func() {
		_, err := m.Read(0, make([]byte, 1), 0)
		answers <- err
	}()
	select {
	case err := <-answers:
		t.Fatalf("answered %v", err)
	default:
	}
	if loss := m.Cut(KeepSome, rand.New(rand.NewPCG(1, 1))); loss.Unflushed != 0 {
		t.Errorf("%+v: the late write was taken", loss)
	}
	for range 3 {
		if err := <-answers; !errors.Is(err, ErrCut) {
			t.Errorf("answer = %v, want ErrCut", err)
		}
	}
}

func TestAStalledMediumWritesAndDoesNotFlush(t *testing.T) {
	t.Parallel()
	m, err := NewMedium(pageSize)
	if err != nil {
		t.Fatal(err)
	}
	m.Stall()
	flushed := make(chan error, 1)
	go func() { flushed <- m.Flush(0) }()
	if err := m.Write(0, []byte("unflushed"), 0); err != nil {
		t.Fatal(err)
	}
	m.Fail()
	if loss := m.Cut(KeepNone, rand.New(rand.NewPCG(1, 1))); loss.Unflushed != 1 {
		t.Errorf("%+v: the write is not in the cache any more", loss)
	}
	if err := <-flushed; !errors.Is(err, ErrCut) {
		t.Errorf("flush = %v, want ErrCut", err)
	}
	if err := m.Flush(1); err != nil {
		t.Errorf("flush in the next life = %v", err)
	}
}

func TestMediumEdges(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, -pageSize, 100} {
		if _, err := NewMedium(size); err == nil {
			t.Errorf("a medium of %d bytes", size)
		}
	}
	m, err := NewMedium(pageSize)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := m.Read(0, make([]byte, 100), pageSize-10); n != 10 || err != nil {
		t.Errorf("read at the end = %d, %v", n, err)
	}
	if _, err := m.Read(0, make([]byte, 1), pageSize); !errors.Is(err, io.EOF) {
		t.Errorf("read behind the end = %v", err)
	}
	if err := m.Write(0, make([]byte, 2), pageSize-1); err == nil {
		t.Error("write over the end")
	}
}
