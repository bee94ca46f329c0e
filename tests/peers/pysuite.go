package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kafka-python's source release has its tests, but for two files that they import. The stand-ins
// do no more than name the broker that runs already.
var kafkaPythonMissing = map[string]string{
	"test/__init__.py": "",
	"test/service.py": `class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
`,
}

// pytestPins are what the tests need besides the clients of tests/clients/python.
var pytestPins = []string{"pytest==8.4.2", "pytest-timeout==2.4.0", "pytest-mock==3.15.1", "iniconfig==2.3.1", "pluggy==1.7.0", "Pygments==2.21.0"}

const (
	junitFile = "junit.xml"
	// oneTest is how long one test of kafka-python may take, in seconds.
	oneTest = "90"
)

// prepareKafkaPython takes the version that tests/clients/python has.
func prepareKafkaPython(ctx context.Context, s site, p *plan) (string, error) {
	pins := filepath.Join(s.root, "tests", "clients", "python", "requirements.txt")
	text, err := os.ReadFile(pins)
	if err != nil {
		return "", err
	}
	version := ""
	for _, line := range strings.Fields(string(text)) {
		if v, ok := strings.CutPrefix(line, "kafka-python=="); ok {
			version = v
		}
	}
	venv := filepath.Join(s.dir, "venv")
	python := filepath.Join(venv, "bin", "python")
	if err := command(ctx, s.dir, nil, "python3", "-m", "venv", venv); err != nil {
		return "", err
	}
	pip := []string{"-m", "pip", "--disable-pip-version-check", "-q"}
	install := append(append(pip, "install", "--no-deps", "-r", pins), pytestPins...)
	if err := command(ctx, s.dir, nil, python, install...); err != nil {
		return "", err
	}
	download := append(pip, "download", "--no-deps", "--no-binary", ":all:", "-d", s.dir, "kafka-python=="+version)
	if err := command(ctx, s.dir, nil, python, download...); err != nil {
		return "", err
	}
	archives, err := filepath.Glob(filepath.Join(s.dir, "kafka*python-"+version+".tar.gz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("no source release of kafka-python %s in %v", version, archives)
	}
	src := filepath.Join(s.dir, "source")
	if err := os.Mkdir(src, 0o755); err != nil {
		return "", err
	}
	if err := command(ctx, src, nil, "tar", "-xzf", archives[0], "--strip-components=1"); err != nil {
		return "", err
	}
	for name, content := range kafkaPythonMissing {
		if err := os.WriteFile(filepath.Join(src, name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	args := []string{python, "-m", "pytest", "test/integration", "-q", "--timeout", oneTest, "-p", "no:cacheprovider",
		"--junitxml", filepath.Join(s.dir, junitFile)}
	for _, t := range s.leave {
		args = append(args, "--deselect", "test/integration/"+strings.Replace(t, "::", ".py::", 1))
	}
	p.Steps = []step{{
		Dir: src, Args: args, Out: "pytest.out",
		// The tests look for a Kafka of theirs, which an empty folder passes for.
		Env: []string{"KAFKA_URI=kafka://127.0.0.1:9092", "KAFKA_VERSION=4.3", "KAFKA_ROOT=" + src, "PYTHONDONTWRITEBYTECODE=1"},
	}}
	return version, nil
}

// readJUnit returns the results in pytest's report.
func readJUnit(dir string) ([]result, error) {
	text, err := os.ReadFile(filepath.Join(dir, junitFile))
	if err != nil {
		return nil, err
	}
	type ending struct {
		Message string `xml:"message,attr"`
	}
	var report struct {
		Cases []struct {
			Class   string  `xml:"classname,attr"`
			Name    string  `xml:"name,attr"`
			Failure *ending `xml:"failure"`
			Error   *ending `xml:"error"`
			Skipped *ending `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	var out []result
	for _, c := range report.Cases {
		r := result{test: strings.TrimPrefix(c.Class, "test.integration.") + "::" + c.Name, outcome: passes}
		for o, e := range map[outcome]*ending{fails: c.Failure, skips: c.Skipped} {
			if e != nil {
				r.outcome, r.words = o, e.Message
			}
		}
		if c.Error != nil {
			r.outcome, r.words = fails, c.Error.Message
		}
		r.words, _, _ = strings.Cut(r.words, "\n")
		out = append(out, r)
	}
	return out, nil
}
