package keyring_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pilotstatus.dev/infra/keyring"
)

func TestCreateMasterNeverOverwrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.json")
	made, err := keyring.CreateMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.CreateMaster(path); !errors.Is(err, keyring.ErrMasterExists) {
		t.Errorf("second: %v, want ErrMasterExists", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Error("the file changed")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	loaded, err := keyring.LoadMaster(path)
	if err != nil || loaded.Active() != made.Active() || loaded.Active() == "" {
		t.Errorf("loaded %v, %v; made %v", loaded, err, made)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("files left: %v, %v", files, err)
	}
}

func TestRotationKeepsOldTextsReadable(t *testing.T) {
	t.Parallel()
	_, kv := bucket(t)
	path := filepath.Join(t.TempDir(), "master.json")
	old, err := keyring.CreateMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	first := seal(t, keyring.New(kv, old, keyring.Options{}), "acme", "old", nil, []byte("old"))
	rotated, err := keyring.RotateMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := keyring.LoadMaster(path)
	if err != nil || loaded.Active() != rotated.Active() || loaded.Active() == old.Active() {
		t.Fatalf("active = %q, %v", loaded.Active(), err)
	}
	ring := keyring.New(kv, loaded, keyring.Options{})
	second := seal(t, ring, "acme", "new", nil, []byte("new"))
	for want, s := range map[string]keyring.Sealed{"old": first, "new": second} {
		if got, err := ring.Open(t.Context(), "acme", s, nil); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", want, got, err)
		}
	}
	if _, err := keyring.New(kv, old, keyring.Options{}).Open(t.Context(), "acme", second, nil); !errors.Is(err, keyring.ErrMasterMissing) {
		t.Errorf("new text with the old file: %v, want ErrMasterMissing", err)
	}
	stranger := keyring.New(kv, master(t), keyring.Options{})
	if _, err := stranger.Open(t.Context(), "acme", first, nil); !errors.Is(err, keyring.ErrMasterMissing) || errors.Is(err, keyring.ErrKeyMissing) {
		t.Errorf("strange master: %v, want ErrMasterMissing", err)
	}
}

func TestLoadMasterRefuses(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	for name, c := range map[string]struct {
		body string
		mode fs.FileMode
		ok   bool
	}{
		"good":            {`{"active":"a","keys":{"a":"` + key + `"}}`, 0o600, true},
		"group may read":  {`{"active":"a","keys":{"a":"` + key + `"}}`, 0o440, true},
		"others may read": {`{"active":"a","keys":{"a":"` + key + `"}}`, 0o644, false},
		"not json":        {key, 0o600, false},
		"empty":           {``, 0o600, false},
		"unknown field":   {`{"active":"a","keys":{"a":"` + key + `"},"x":1}`, 0o600, false},
		"no active":       {`{"active":"b","keys":{"a":"` + key + `"}}`, 0o600, false},
		"short key":       {`{"active":"a","keys":{"a":"c2hvcnQ="}}`, 0o600, false},
		"bad base64":      {`{"active":"a","keys":{"a":"!` + key + `"}}`, 0o600, false},
		"bad id":          {`{"active":"a.b","keys":{"a.b":"` + key + `"}}`, 0o600, false},
	} {
		path := filepath.Join(t.TempDir(), "master.json")
		if err := os.WriteFile(path, []byte(c.body), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := keyring.LoadMaster(path)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), key[:16]) {
			t.Errorf("%s: the error repeats the key", name)
		}
	}
	if _, err := keyring.LoadMaster(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := keyring.RotateMaster(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rotate no file: %v", err)
	}
	if _, err := keyring.CreateMaster(filepath.Join(t.TempDir(), "no", "directory")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create without a directory: %v", err)
	}
}
