package natsserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// ContextName is the name under which the nats CLI finds the server: `nats --context pilot stream ls`.
	ContextName = "pilot"

	contextMark = "written by pilot, replaced at every start"
)

// ErrForeignContext says that a context of our name exists which somebody else wrote; it is left as it is.
var ErrForeignContext = errors.New("a nats context of this name exists and was not written by pilot")

// ConfigHome is the directory under which the nats CLI keeps its contexts: $XDG_CONFIG_HOME, else ~/.config.
func ConfigHome() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find configuration directory: %w", err)
	}
	return filepath.Join(home, ".config"), nil
}

// WriteContext writes the nats CLI context `pilot` for url below configHome (see ConfigHome) and returns its path.
// The file appears whole or not at all. ErrForeignContext and a directory that cannot be written are worth a notice,
// not the end of a start: nothing but the command line needs the file.
func WriteContext(configHome, url string) (string, error) {
	dir := filepath.Join(configHome, "nats", "context")
	path := filepath.Join(dir, ContextName+".json")
	if err := ours(path); err != nil {
		return path, fmt.Errorf("write nats context: %w", err)
	}
	body, err := json.MarshalIndent(map[string]string{
		"description": "Pilot (" + contextMark + ")",
		"url":         url,
	}, "", "  ")
	if err != nil {
		return path, fmt.Errorf("write nats context: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return path, fmt.Errorf("write nats context: %w", err)
	}
	if err := replaceFile(path, append(body, '\n')); err != nil {
		return path, fmt.Errorf("write nats context: %w", err)
	}
	return path, nil
}

// ours reports nil when the file is absent or carries our mark.
func ours(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	var doc struct {
		Description string `json:"description"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil || !strings.Contains(doc.Description, contextMark) {
		return fmt.Errorf("%w: %s; rename it, or connect with `nats --server`", ErrForeignContext, path)
	}
	return nil
}

func replaceFile(path string, body []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(body)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
