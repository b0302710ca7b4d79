package keyring_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	loaded, err := keyring.LoadMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded, added := loaded.WithNew()
	if loaded.Active() != old.Active() || added == old.Active() {
		t.Errorf("with %q: active = %q", added, loaded.Active())
	}
	if loaded, err = loaded.WithActive(added); err != nil || loaded.Active() != added {
		t.Fatalf("use %q: %v, %v", added, loaded, err)
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
	same := func(m *keyring.Master) (*keyring.Master, error) { return m, nil }
	if _, err := keyring.ChangeMaster(filepath.Join(t.TempDir(), "none"), same); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("change no file: %v", err)
	}
	if _, err := keyring.CreateMaster(filepath.Join(t.TempDir(), "no", "directory")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create without a directory: %v", err)
	}
}

func TestChangeMasterKeepsTheFilesMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.json")
	old, err := keyring.CreateMaster(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	var added string
	if _, err := keyring.ChangeMaster(path, func(m *keyring.Master) (next *keyring.Master, _ error) {
		next, added = m.WithNew()
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o440 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	want := []string{old.Active(), added}
	slices.Sort(want)
	now, err := keyring.LoadMaster(path)
	if err != nil || !slices.Equal(now.IDs(), want) || now.Active() != old.Active() {
		t.Errorf("now %v, %v", now, err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("files left: %v, %v", files, err)
	}
}

// A key that is lost cannot be made again: whoever was slower has to look first.
func TestChangeMasterOverwritesNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "master.json")
	if _, err := keyring.CreateMaster(path); err != nil {
		t.Fatal(err)
	}
	add := func(m *keyring.Master) (*keyring.Master, error) { m, _ = m.WithNew(); return m, nil }
	var between *keyring.Master
	_, err := keyring.ChangeMaster(path, func(m *keyring.Master) (*keyring.Master, error) {
		var err error
		if between, err = keyring.ChangeMaster(path, add); err != nil {
			return nil, err
		}
		return add(m)
	})
	if err == nil || !strings.Contains(err.Error(), "somebody else changed the file") {
		t.Errorf("the slower change: %v", err)
	}
	if now, err := keyring.LoadMaster(path); err != nil || !slices.Equal(now.IDs(), between.IDs()) {
		t.Errorf("now %v, %v", now, err)
	}
}

func TestAMasterKeyInUseStays(t *testing.T) {
	t.Parallel()
	m, id := master(t).WithNew()
	if _, err := m.Without(m.Active()); !errors.Is(err, keyring.ErrMasterInUse) {
		t.Errorf("without the active one: %v", err)
	}
	for what, do := range map[string]func(string) (*keyring.Master, error){"use": m.WithActive, "remove": m.Without} {
		if _, err := do("m-unknown"); !errors.Is(err, keyring.ErrMasterMissing) {
			t.Errorf("%s an unknown one: %v", what, err)
		}
	}
	if less, err := m.Without(id); err != nil || !slices.Equal(less.IDs(), []string{m.Active()}) || len(m.IDs()) != 2 {
		t.Errorf("without %q: %v, %v", id, less, err)
	}
}
