package compose_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"
)

// root is the root of the repository.
const root = "../.."

// password consists of digits, which a careless configuration reads as a number.
const password = "0123456789"

func TestMain(m *testing.M) {
	if err := os.Setenv("NATS_PASSWORD", `"`+password+`"`); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// required are the variables without a default.
func required() map[string]string {
	return map[string]string{
		"NATS_PASSWORD": password, "POSTGRES_PASSWORD": "p", "MASTER_KEY_FILE": "/etc/pilot/master.key", "PILOT_INGEST_URL": "https://in.example",
	}
}

// load reads the file at the root as `docker compose` does.
func load(env map[string]string, profiles ...string) (*types.Project, error) {
	var pairs []string
	for k, v := range env {
		pairs = append(pairs, k+"="+v)
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithWorkingDirectory(root),
		cli.WithEnv(pairs), cli.WithProfiles(profiles))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

func project(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	p, err := load(required(), profiles...)
	if err != nil {
		t.Fatalf("load docker-compose.yml: %v", err)
	}
	return p
}

func TestServices(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"":      {"nats", "pilot", "postgres"},
		"roles": {"api", "correlator", "dispatcher", "ingest", "nats", "notifier", "pilot", "postgres", "projector", "reconciler"},
	} {
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(project(t, name).Services))); diff != "" {
			t.Errorf("services of profile %q (-want +got):\n%s", name, diff)
		}
	}
}

// TestNoSecretHasADefault: without a variable nothing starts, and the error names it.
func TestNoSecretHasADefault(t *testing.T) {
	t.Parallel()
	for name := range required() {
		env := required()
		delete(env, name)
		if _, err := load(env); err == nil || !strings.Contains(err.Error(), "set "+name+" in .env") {
			t.Errorf("without %s: error %v, want one that says to set it", name, err)
		}
	}
}

// TestPilotIsWhatTheProgramKnows compares variables and commands with the settings in the source, which infra may not import.
func TestPilotIsWhatTheProgramKnows(t *testing.T) {
	t.Parallel()
	settings := read(t, "services/app/config.go")
	roles := []string{"up"}
	for _, m := range regexp.MustCompile(`Role = "([a-z]+)"`).FindAllStringSubmatch(settings, -1) {
		roles = append(roles, m[1])
	}
	ran := map[string]bool{}
	for name, s := range project(t, "roles").Services {
		if s.Build == nil {
			continue
		}
		if len(s.Command) != 1 || !slices.Contains(roles, s.Command[0]) {
			t.Errorf("service %s runs %q: want one of %q", name, s.Command, roles)
			continue
		}
		ran[s.Command[0]] = true
		for variable := range s.Environment {
			if !strings.Contains(settings, `env:"`+variable+`"`) {
				t.Errorf("service %s sets %s, which is no setting", name, variable)
			}
		}
		if !s.ReadOnly || s.User != "65534:65534" || !slices.Contains(s.CapDrop, "ALL") {
			t.Errorf("service %s: want a read-only root, user nobody and no capabilities", name)
		}
		if answers := name == "pilot" || name == "api"; answers != strings.Contains(strings.Join(s.HealthCheck.Test, " "), "/readyz") {
			t.Errorf("service %s: health check %v", name, s.HealthCheck.Test)
		}
		if s.StopGracePeriod == nil {
			t.Errorf("service %s: want time to end calls under way", name)
		}
		for _, path := range []string{s.Build.Context, filepath.Join(s.Build.Context, s.Build.Dockerfile)} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(roles)), slices.Sorted(maps.Keys(ran))); diff != "" {
		t.Errorf("commands that some service runs (-want +got):\n%s", diff)
	}
}

func TestStatePersists(t *testing.T) {
	t.Parallel()
	p := project(t)
	for name, target := range map[string]string{"nats": "/data", "postgres": "/var/lib/postgresql/data", "pilot": "/data"} {
		if !slices.ContainsFunc(p.Services[name].Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Type == types.VolumeTypeVolume && v.Target == target
		}) {
			t.Errorf("service %s: want a named volume at %s", name, target)
		}
	}
	for name, s := range p.Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("service %s publishes port %s at %q: want loopback", name, port.Published, port.HostIP)
			}
		}
	}
}

// TestNATSConfig reads the configuration as the server of compose.yml does, with a password of digits.
func TestNATSConfig(t *testing.T) {
	t.Parallel()
	opts, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatalf("read nats.conf: %v", err)
	}
	if !opts.JetStream || !opts.SyncAlways || opts.StoreDir != "/data" || opts.MaxPayload != 1<<20 {
		t.Errorf("jetstream %v, sync always %v, store %q, payload %d: want what the embedded server states",
			opts.JetStream, opts.SyncAlways, opts.StoreDir, opts.MaxPayload)
	}
	if opts.Username != "pilot" || opts.Password != password {
		t.Errorf("user %q: want pilot, with the password of the environment", opts.Username)
	}
	if opts.HTTPHost != "127.0.0.1" {
		t.Errorf("monitoring listens on %q: want loopback", opts.HTTPHost)
	}
}

// TestImagesFollowGoMod: the server in the container is the one that the tests run against.
func TestImagesFollowGoMod(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`nats-io/nats-server/v2 v(\S+)`).FindStringSubmatch(read(t, "infra/go.mod"))
	if m == nil {
		t.Fatal("infra/go.mod does not require nats-server")
	}
	if got, want := project(t).Services["nats"].Image, "nats:"+m[1]+"-alpine"; got != want {
		t.Errorf("image of nats is %s, want %s", got, want)
	}
	line := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.work"))
	if line == nil || !strings.Contains(read(t, "infra/compose/Dockerfile"), "FROM golang:"+line[1]+"-") {
		t.Errorf("the Dockerfile does not build with go %v of go.work", line)
	}
}

// TestDockerfileCopiesEveryModule, and nothing that the build does not need.
func TestDockerfileCopiesEveryModule(t *testing.T) {
	t.Parallel()
	file, ignore := read(t, "infra/compose/Dockerfile"), strings.Split(read(t, "infra/compose/Dockerfile.dockerignore"), "\n")
	var used []string
	for _, m := range regexp.MustCompile(`(?m)^\t\./(\w+)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		used = append(used, m[1])
	}
	if len(used) == 0 {
		t.Fatal("go.work names no module")
	}
	var copied []string
	for _, m := range regexp.MustCompile(`(?m)^COPY (\w+) (\w+)$`).FindAllStringSubmatch(file, -1) {
		copied = append(copied, m[1])
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(used)), slices.Sorted(slices.Values(copied))); diff != "" {
		t.Errorf("modules that the Dockerfile copies (-go.work +Dockerfile):\n%s", diff)
	}
	for _, m := range used {
		if want := "COPY " + m + "/go.mod " + m + "/go.sum " + m + "/\n"; !strings.Contains(file, want) {
			t.Errorf("the Dockerfile lacks %q: modules are downloaded before sources are copied", want)
		}
		if !slices.Contains(ignore, "!"+m) {
			t.Errorf("Dockerfile.dockerignore hides %s from the build", m)
		}
	}
	if ignore[1] != "*" {
		t.Errorf("Dockerfile.dockerignore begins with %q: want everything ignored that is not named", ignore[1])
	}
	for _, want := range []string{"CGO_ENABLED=0", "USER 65534:65534"} {
		if !strings.Contains(file, want) {
			t.Errorf("the Dockerfile lacks %s", want)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(content)
}
