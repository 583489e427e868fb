//go:build linux

package filestore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
)

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/a/b/locks"
	if _, err := Open(dir, NoCreate()); err == nil {
		t.Error("NoCreate made a directory")
	} else {
		wantErr(t, err, driver.ErrUnavailable, "mkdir -m 700")
	}
	open(t, dir)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, st.Mode(), err)
		}
	}
}

func TestOpenMakesWhatIsShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		option Option
		dir    os.FileMode
		file   os.FileMode
	}{
		{AllowGroup(), os.ModeDir | os.ModeSetgid | 0o770, 0o660},
		{AllowWorld(), os.ModeDir | os.ModeSticky | 0o777, 0o666},
	} {
		s := open(t, t.TempDir()+"/locks", c.option)
		take(t, s, shared("job", "us"))
		if st, err := os.Stat(s.Dir()); err != nil || st.Mode() != c.dir {
			t.Errorf("directory %v, %v; want %v", st.Mode(), err, c.dir)
		}
		for _, path := range []string{pathOf(s, "job"), recordLockPath(pathOf(s, "job"))} {
			if st, err := os.Stat(path); err != nil || st.Mode() != c.file {
				t.Errorf("%s %v, %v; want %v", path, st.Mode(), err, c.file)
			}
		}
		open(t, s.Dir(), c.option)
	}
}

// Root and other users share a directory that everybody may write to. They see each other's holds.
func TestUsersShareAWorldWritableDirectory(t *testing.T) {
	t.Parallel()
	s := open(t, worldReadable(t)+"/locks", AllowWorld())
	take(t, s, request("job", "us"))
	release(t, s, "job", "us", driver.OutcomeReleased)
	c := start(t, "in the world", s.Dir(), asNobody)
	c.expect("got it")
	if h := refused(t, s, request("job", "us")).Holds; len(h) != 1 || h[0].Label != "child" {
		t.Errorf("held by %+v", h)
	}
	w := wait(t, s, request("job", "us"))
	s.waits(t, "job")
	c.in.Close()
	if g := w.get(t); g.Fence == 0 {
		t.Error("nothing was handed over")
	}
}

func TestUnsafeDirectories(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mode := func(m os.FileMode) string {
		dir := t.TempDir()
		if err := os.Chmod(dir, m); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		what, dir string
		opts      []Option
		err       error
		word      string
	}{
		{"relative", "locks", nil, driver.ErrInvalid, "absolute"},
		{"empty", "", nil, driver.ErrInvalid, "absolute"},
		{"file", file, nil, driver.ErrInvalid, "not a directory"},
		{"below a file", file + "/x", nil, driver.ErrUnavailable, "choose"},
		{"group", mode(0o770), nil, driver.ErrUnavailable, "AllowGroup (group=yes)"},
		{"world", mode(0o707 | os.ModeSticky), nil, driver.ErrUnavailable, "AllowWorld (world=yes)"},
		{"like /tmp", mode(0o777 | os.ModeSticky), nil, driver.ErrUnavailable, "directory of your own"},
		{"world, group allowed", mode(0o777 | os.ModeSticky), []Option{AllowGroup()}, driver.ErrUnavailable, "AllowWorld (world=yes)"},
		{"not sticky", mode(0o777), []Option{AllowWorld()}, driver.ErrUnavailable, "chmod +t"},
		{"group, asked for", mode(0o770), []Option{AllowGroup()}, nil, ""},
		{"world, asked for", mode(0o777 | os.ModeSticky), []Option{AllowWorld()}, nil, ""},
		{"readable", mode(0o755), nil, nil, ""},
	} {
		s, err := Open(c.dir, c.opts...)
		if err == nil {
			s.Close()
		}
		if c.err == nil && err != nil || c.err != nil && err == nil {
			t.Errorf("%s: %v", c.what, err)
		} else if err != nil {
			wantErr(t, err, c.err, c.word)
		}
	}
}

// The directory, or a file in it, belongs to another user. Only root can change the owner of a
// file.
func TestWhatOthersOwn(t *testing.T) {
	t.Parallel()
	start(t, "not mine", worldReadable(t), asNobody).end()
	if os.Geteuid() != 0 {
		return // the rest needs a file that belongs to another user
	}
	s := open(t, t.TempDir())
	if err := os.WriteFile(pathOf(s, "job"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(pathOf(s, "job"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(patience(t), request("job", "us"))
	wantErr(t, err, driver.ErrUnavailable, "belongs to user 65534", "group=yes")
	if err := os.Chown(s.Dir(), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err = Open(s.Dir())
	wantErr(t, err, driver.ErrUnavailable, "belongs to user 65534")
}

func init() {
	scripts["in the world"] = func(dir string) error {
		s, err := Open(dir, AllowWorld())
		if err != nil {
			return err
		}
		if _, err := s.Acquire(background, request("job", "child")); err != nil {
			return err
		}
		fmt.Println("got it")
		pause()
		_, err = s.Release(background, "job", "child", 0)
		return err
	}
	scripts["not mine"] = func(string) error {
		_, err := Open("/usr/lib") // a directory of root, which this user may only read
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "belongs to user 0") {
			return err
		}
		return nil
	}
}

// worldReadable lets every user reach the test's directory.
func worldReadable(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNetworkFileSystems(t *testing.T) {
	t.Parallel()
	if kind, err := networkFileSystem(t.TempDir()); kind != "" || err != nil {
		t.Errorf("the test's own directory: %q, %v", kind, err)
	}
	if _, err := networkFileSystem(t.TempDir() + "/nothing"); err == nil {
		t.Error("a directory that is not there")
	}
	for magic, want := range map[uint32]string{0x6969: "nfs", 0xFF534D42: "cifs", 0x65735546: "fuse", 0x01021997: "9p", 0xEF53: "", 0x01021994: ""} {
		if got := networkKinds[magic]; got != want {
			t.Errorf("%#x: %q, want %q", magic, got, want)
		}
	}
	err := refuseNetwork("/srv/locks", "nfs", false)
	wantErr(t, err, driver.ErrUnavailable, "/srv/locks", "AllowNetwork (nfs=force)", "local disk")
	if err := refuseNetwork("/srv/locks", "nfs", true); err != nil {
		t.Error(err)
	}
}

func TestFromURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for query, ok := range map[string]bool{
		"": true, "?create=no": true, "?create=yes": true, "?group=yes": true, "?world=no": true, "?nfs=force": true,
		"?create=maybe": false, "?nfs=yes": false, "?max-open=3": false, "?worlds=yes": false,
		"?world=yes&world=no": false, "?ttl=1s": false, "?a=%zz": false, "#x": false,
	} {
		u, err := url.Parse("file://" + dir + query)
		if err != nil {
			t.Fatal(err)
		}
		s, err := FromURL(t.Context(), u)
		if ok != (err == nil) || !ok && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", query, err)
		}
		if ok {
			s.Close()
		} else if s != nil {
			t.Errorf("%s: an error and a store", query)
		}
	}
	for _, text := range []string{"file:locks", "file:", "file://", "file://host/dir", "file://me@localhost/dir", "flock:///dir", "redis://x/"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromURL(t.Context(), u); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
	u, _ := url.Parse("file://localhost" + dir + "/a%20b?group=yes")
	s, err := FromURL(t.Context(), u)
	if err != nil || s.Dir() != dir+"/a b" || s.config.access != group {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Close()
	if s, err = FromURL(t.Context(), u, AllowWorld()); err != nil || s.config.access != world {
		t.Fatalf("an option after the URL: %+v, %v", s, err)
	}
	s.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := FromURL(ended, u); s != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v, %v", s, err)
	}
}

func TestHomeOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	passwd, getent := dir+"/passwd", dir+"/getent"
	const text = "root:x:0:0::/root:/bin/sh\nbroken\nme:x:1000:1000:Me,,,:/home/me:/bin/sh\nyou:x:100:1000::/home/you:/bin/sh\nshort:x:7:7:\n"
	if err := os.WriteFile(passwd, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ \"$*\" = \"passwd 2000\" ] && echo ldap:x:2000:1::/home/ldap:/bin/sh\n"
	if err := server.WriteProgram(getent, []byte(script)); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]string{1000: "/home/me", 100: "/home/you", 2000: "/home/ldap", 10: "", 7: "", 4711: ""} {
		home, err := homeOf(uid, passwd, getent)
		if home != want || (want == "") != errors.Is(err, errNoHome) {
			t.Errorf("%d: %q, %v", uid, home, err)
		}
	}
	if _, err := homeOf(2000, passwd, dir+"/nothing"); !errors.Is(err, errNoHome) {
		t.Errorf("without getent: %v", err)
	}
	if home, err := homeOf(2000, dir+"/nothing", getent); home != "/home/ldap" {
		t.Errorf("without passwd: %q, %v", home, err)
	}
	for _, home := range []string{"", "/", "relative"} {
		if dir, err := stateDir(home); !errors.Is(err, errNoHome) {
			t.Errorf("home %q: %q, %v", home, dir, err)
		}
	}
}

// DefaultDir ignores HOME and similar variables.
func TestDefaultDirIgnoresTheEnvironment(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "TMPDIR", "USER"} {
		t.Setenv(name, t.TempDir())
	}
	dir, err := defaultDir()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && dir != "/var/lib/padlock" || os.Geteuid() != 0 && !strings.HasSuffix(dir, "/.local/state/padlock") {
		t.Errorf("the default directory is %q", dir)
	}
	if strings.HasPrefix(dir, os.TempDir()) {
		t.Errorf("%q comes from the environment", dir)
	}
}

// The path of the directory is shortened before anything else. If the system followed the link
// first, Open would check one directory, and the locks would be in another.
func TestOpenShortensThePath(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if err := os.MkdirAll(base+"/elsewhere/deep", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere/deep", base+"/link"); err != nil {
		t.Fatal(err)
	}
	s := open(t, base+"/link/../locks")
	take(t, s, request("job", "us"))
	if s.Dir() != base+"/locks" {
		t.Errorf("the locks are in %s", s.Dir())
	}
	if _, err := os.Stat(base + "/elsewhere/locks"); err == nil {
		t.Error("Open made a directory that it does not use")
	}
}
