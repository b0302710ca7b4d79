package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// copyTree copies what a build and its tests read, and leaves out what tools make.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if d.IsDir() {
			switch d.Name() {
			case ".git", ".bin", "bin", ".pilot", "coverage":
				return filepath.SkipDir
			}
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path) //nolint:gosec // the tree is the caller's own
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}

// patch changes one text of one file; the text must be there once, so that a check that no longer fits says so.
type patch struct {
	file     string // below the folder of go.work
	old, new string
}

// apply patches a file and gives what takes the change back.
func (p patch) apply(dir string) (undo func() error, err error) {
	path := filepath.Join(dir, filepath.FromSlash(p.file))
	content, err := p.read(dir)
	if err != nil {
		return nil, err
	}
	changed := strings.Replace(content, p.old, p.new, 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	return func() error { return os.WriteFile(path, []byte(content), 0o600) }, nil
}

// read gives the file when the patch fits it.
func (p patch) read(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p.file)))
	if err != nil {
		return "", fmt.Errorf("read what is to be patched: %w", err)
	}
	if n := strings.Count(string(content), p.old); n != 1 {
		return "", fmt.Errorf("%s has %d times, not once:\n%s", p.file, n, p.old)
	}
	return string(content), nil
}
