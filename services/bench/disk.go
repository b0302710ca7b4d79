package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// fsyncTime measures what one small append with fsync costs on the disk of dir: every other figure hangs on it.
func fsyncTime(dir string) (_ time.Duration, err error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, fmt.Errorf("make probe file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	all := make([]time.Duration, 200)
	buf := make([]byte, 512)
	for i := range all {
		began := time.Now()
		if _, err := f.Write(buf); err != nil {
			return 0, fmt.Errorf("append to probe file: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("sync probe file: %w", err)
		}
		all[i] = time.Since(began)
	}
	return quantile(all, 0.5), nil
}
