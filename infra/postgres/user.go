package postgres

import (
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user is whom the server runs as when we are root, which Postgres refuses to be.
type user struct {
	name     string
	uid, gid uint32
	groups   []uint32
}

// serverUser is nil when the server may run as ourselves; as root it is `postgres`, else `nobody`.
func serverUser() (*user, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil means ourselves, everywhere below
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := lookUp(name)
		if err == nil {
			return u, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("find a user to run postgres as: %w", errors.Join(errs...))
}

func lookUp(name string) (*user, error) {
	found, err := osuser.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := parseID(found.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := parseID(found.Gid)
	if err != nil {
		return nil, err
	}
	u := &user{name: name, uid: uid, gid: gid}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", name, err)
	}
	for _, id := range ids {
		group, err := parseID(id)
		if err != nil {
			return nil, err
		}
		u.groups = append(u.groups, group)
	}
	return u, nil
}

func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("user or group id: %w", err)
	}
	return uint32(id), nil
}

// owns gives a path to the user.
func (u *user) owns(path string) error {
	if u == nil {
		return nil
	}
	return os.Lchown(path, int(u.uid), int(u.gid))
}

// attributes are those of a child process: a process group of its own, so that a Ctrl-C in the terminal leaves the
// order of shutdown to us, and the user's identity.
func (u *user) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if u != nil {
		attr.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}
	}
	return attr
}
