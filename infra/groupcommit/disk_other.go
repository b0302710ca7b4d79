//go:build !linux

package groupcommit

import (
	"fmt"
	"os"
	"runtime"
)

func supported(*os.File) error {
	return fmt.Errorf("%w: %s cannot sync one file system as a whole", ErrUnsupported, runtime.GOOS)
}

func syncFS(dir *os.File) error { return supported(dir) }

func deviceOf(string) (uint64, error) { return 0, nil }
