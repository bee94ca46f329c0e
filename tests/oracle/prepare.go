package oracle

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // For the two sources below.
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

//go:embed pom.xml
var pomXML []byte

//go:embed Oracle.java
var oracleJava []byte

// ErrNoJava says that this machine lacks what Kafka needs to run.
var ErrNoJava = errors.New("oracle: java, javac or mvn is not on the path")

// Installation is a Kafka that is ready to be started.
type Installation struct {
	// ClassPath is what java gets for -cp: Kafka, its tools, and the Oracle class.
	ClassPath string
	// Version is Kafka's version, as pinned in pom.xml.
	Version string
}

// Version returns the version of Apache Kafka that pom.xml pins.
func Version() string {
	_, rest, _ := strings.Cut(string(pomXML), "<kafka.version>")
	version, _, _ := strings.Cut(rest, "<")
	return version
}

// Prepare makes Kafka ready to be started: from the network the first time, from the cache after.
// It may be called from several processes at once; one of them does the work. The error wraps
// ErrNoJava if a tool is missing.
func Prepare(ctx context.Context) (Installation, error) {
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return Installation{}, fmt.Errorf("%w: %s", ErrNoJava, tool)
		}
	}
	h := sha256.New()
	h.Write(pomXML)
	h.Write(oracleJava)
	dir, err := CacheDir("oracle-" + hex.EncodeToString(h.Sum(nil)[:6]))
	if err != nil {
		return Installation{}, err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return Installation{}, err
	}
	defer unlock()

	done := filepath.Join(dir, "done")
	jars := filepath.Join(dir, "classpath")
	classes := filepath.Join(dir, "classes")
	list, err := os.ReadFile(jars)
	if _, doneErr := os.Stat(done); doneErr != nil || err != nil || !present(string(list)) {
		if err := build(ctx, dir, jars, classes); err != nil {
			return Installation{}, err
		}
		if list, err = os.ReadFile(jars); err != nil {
			return Installation{}, fmt.Errorf("oracle: read class path: %w", err)
		}
		if err := os.WriteFile(done, nil, 0o644); err != nil {
			return Installation{}, fmt.Errorf("oracle: mark as prepared: %w", err)
		}
	}
	return Installation{
		ClassPath: classes + string(os.PathListSeparator) + strings.TrimSpace(string(list)),
		Version:   Version(),
	}, nil
}

// CacheDir returns the folder of the given name in which the test tools keep what they can make
// again, and makes it. SLUICE_TEST_CACHE overrides where these folders lie.
func CacheDir(name string) (string, error) {
	base := os.Getenv("SLUICE_TEST_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("oracle: find the cache folder: %w", err)
		}
		base = filepath.Join(user, "sluice-tests")
	}
	dir := filepath.Join(base, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("oracle: make the cache folder: %w", err)
	}
	return dir, nil
}

func build(ctx context.Context, dir, jars, classes string) error {
	pom := filepath.Join(dir, "pom.xml")
	source := filepath.Join(dir, "Oracle.java")
	if err := os.WriteFile(pom, pomXML, 0o644); err != nil {
		return fmt.Errorf("oracle: write pom.xml: %w", err)
	}
	if err := os.WriteFile(source, oracleJava, 0o644); err != nil {
		return fmt.Errorf("oracle: write Oracle.java: %w", err)
	}
	list, err := ClassPath(ctx, pom, jars)
	if err != nil {
		return err
	}
	return Compile(ctx, list, classes, source)
}

// ClassPath resolves the dependencies of a pom.xml into the local Maven repository, writes the list
// of jars to the file out, and returns it.
func ClassPath(ctx context.Context, pom, out string) (string, error) {
	args := []string{
		"-q", "-B", "-f", pom, "dependency:build-classpath", "-Dmdep.outputFile=" + out,
	}
	// Offline first: it is quicker, and works where everything is there already.
	if _, err := run(ctx, "mvn", append([]string{"-o"}, args...)...); err != nil {
		if text, err := run(ctx, "mvn", args...); err != nil {
			return "", fmt.Errorf("oracle: resolve %s with Maven: %w\n%s", pom, err, text)
		}
	}
	list, err := os.ReadFile(out)
	if err != nil {
		return "", fmt.Errorf("oracle: read class path: %w", err)
	}
	return strings.TrimSpace(string(list)), nil
}

// Compile compiles Java sources into the folder classes.
func Compile(ctx context.Context, classPath, classes string, sources ...string) error {
	if err := os.MkdirAll(classes, 0o755); err != nil {
		return fmt.Errorf("oracle: make the class folder: %w", err)
	}
	args := append([]string{"-nowarn", "-cp", classPath, "-d", classes}, sources...)
	if text, err := run(ctx, "javac", args...); err != nil {
		return fmt.Errorf("oracle: compile: %w\n%s", err, text)
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// present reports whether every file of a class path is still there: the local Maven repository
// may have been cleared since the list was written.
func present(classPath string) bool {
	files := filepath.SplitList(strings.TrimSpace(classPath))
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return false
		}
	}
	return len(files) > 0
}

// lock takes an exclusive lock on a file, waiting for it, and returns what frees it.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("oracle: open the lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("oracle: lock the cache folder: %w", err)
	}
	return func() { f.Close() }, nil
}
