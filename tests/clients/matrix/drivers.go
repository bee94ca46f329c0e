package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluicemq/sluice/tests/oracle"
)

// driver is a client under test.
type driver struct {
	name    string
	command func(addr string) *exec.Cmd
}

// family is a set of drivers that are installed together.
type family struct {
	name    string
	drivers []string
	// install fetches and builds what is pinned in the family's folder, unless it is there already,
	// and returns how to start a driver.
	install func(ctx context.Context, src string) (func(name, addr string) *exec.Cmd, error)
}

// families is the one list of clients.
var families = []family{
	{"go", []string{"franz-go", "sarama", "kafka-go", "confluent-kafka-go"}, installGo},
	{"java", []string{"java", "kafka-tools"}, installJava},
	{"node", []string{"kafkajs", "platformatic-kafka"}, installNode},
	{"python", []string{"confluent-kafka", "kafka-python", "aiokafka"}, installPython},
	{"kcat", []string{"kcat"}, installKcat},
}

// installGo builds the drivers of the module in go; Go's own cache makes that quick when nothing
// changed.
func installGo(ctx context.Context, src string) (func(name, addr string) *exec.Cmd, error) {
	out, err := oracle.CacheDir("clients-go")
	if err != nil {
		return nil, err
	}
	if err := command(ctx, filepath.Join(src, "go"), "go", "build", "-o", out+"/", "./..."); err != nil {
		return nil, err
	}
	return func(name, addr string) *exec.Cmd { return exec.Command(filepath.Join(out, name), addr) }, nil
}

func installJava(ctx context.Context, src string) (func(name, addr string) *exec.Cmd, error) {
	dir := filepath.Join(src, "java")
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	if err != nil {
		return nil, err
	}
	pom := filepath.Join(dir, "pom.xml")
	out, done, err := prepared("clients-java", append([]string{pom}, sources...)...)
	if err != nil {
		return nil, err
	}
	jars, classes := filepath.Join(out, "classpath"), filepath.Join(out, "classes")
	if !done() {
		list, err := oracle.ClassPath(ctx, pom, jars)
		if err != nil {
			return nil, err
		}
		if err := oracle.Compile(ctx, list, classes, sources...); err != nil {
			return nil, err
		}
		if err := mark(out); err != nil {
			return nil, err
		}
	}
	list, err := os.ReadFile(jars)
	if err != nil {
		return nil, err
	}
	main := map[string]string{"java": "JavaClient", "kafka-tools": "KafkaTools"}
	return func(name, addr string) *exec.Cmd {
		return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m",
			"-cp", classes+string(os.PathListSeparator)+string(bytes.TrimSpace(list)), main[name], addr)
	}, nil
}

func installNode(ctx context.Context, src string) (func(name, addr string) *exec.Cmd, error) {
	dir := filepath.Join(src, "node")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	lock := filepath.Join(dir, "package-lock.json")
	out, done, err := prepared("clients-node", lock)
	if err != nil {
		return nil, err
	}
	// The drivers find their modules beside themselves, so they are copied to where those are.
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // A folder, such as modules installed by hand.
		}
		if err := os.WriteFile(filepath.Join(out, filepath.Base(f)), b, 0o644); err != nil {
			return nil, err
		}
	}
	if !done() {
		if err := command(ctx, out, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return nil, err
		}
		if err := mark(out); err != nil {
			return nil, err
		}
	}
	return func(name, addr string) *exec.Cmd {
		return exec.Command("node", filepath.Join(out, name+".mjs"), addr)
	}, nil
}

func installPython(ctx context.Context, src string) (func(name, addr string) *exec.Cmd, error) {
	dir := filepath.Join(src, "python")
	pinned := filepath.Join(dir, "requirements.txt")
	out, done, err := prepared("clients-python", pinned)
	if err != nil {
		return nil, err
	}
	python := filepath.Join(out, "venv", "bin", "python")
	if !done() {
		if err := command(ctx, dir, "python3", "-m", "venv", "--clear", filepath.Join(out, "venv")); err != nil {
			return nil, err
		}
		if err := command(ctx, dir, python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", pinned); err != nil {
			return nil, err
		}
		if err := mark(out); err != nil {
			return nil, err
		}
	}
	return func(name, addr string) *exec.Cmd { return pythonCommand(python, dir, name, addr) }, nil
}

func pythonCommand(python, dir, name, addr string) *exec.Cmd {
	cmd := exec.Command(python, filepath.Join(dir, "drive-"+name+".py"), addr)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// installKcat takes Debian's kcat, whose librdkafka is years older than the others here.
func installKcat(ctx context.Context, src string) (func(name, addr string) *exec.Cmd, error) {
	if _, err := exec.LookPath("kcat"); err != nil {
		install := func() error { return command(ctx, src, "apt-get", "install", "-y", "-q", "kcat") }
		if install() != nil {
			// A new machine knows no packages before it has asked for their list.
			if err := command(ctx, src, "apt-get", "update", "-q"); err != nil {
				return nil, err
			}
			if err := install(); err != nil {
				return nil, err
			}
		}
	}
	return func(name, addr string) *exec.Cmd {
		return pythonCommand("python3", filepath.Join(src, "python"), name, addr)
	}, nil
}

// prepared returns the cache folder for what the pinned files ask for, and whether it is ready.
func prepared(name string, pins ...string) (dir string, done func() bool, err error) {
	h := sha256.New()
	for _, f := range pins {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", nil, err
		}
		h.Write(b)
	}
	dir, err = oracle.CacheDir(name + "-" + hex.EncodeToString(h.Sum(nil)[:6]))
	return dir, func() bool {
		_, err := os.Stat(filepath.Join(dir, "done"))
		return err == nil
	}, err
}

func mark(dir string) error { return os.WriteFile(filepath.Join(dir, "done"), nil, 0o644) }

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, text)
	}
	return nil
}
