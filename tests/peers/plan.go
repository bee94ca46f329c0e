package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// plan is how to run a suite that is ready. It is handed, as a file, to the process that runs in a
// network of its own.
type plan struct {
	// Against is "sluice" or "kafka"; Binary is the sluice program.
	Against, Binary string
	// Port is where the suite looks for the broker on 127.0.0.1; Advertised is the host:port that
	// the broker names to clients, if it is another.
	Port       int
	Advertised string
	// Settings are name=value of the broker, which both brokers know.
	Settings []string
	// SluiceOnly are settings that Kafka does not have.
	SluiceOnly []string
	// Beside is a program that runs while the tests do; nil for none.
	Beside *step
	// Steps are the test programs, one after the other.
	Steps []step
	// Limit is how long all steps may take together.
	Limit time.Duration
}

// step is one program of a plan. Its output goes to the file Out in the plan's folder.
type step struct {
	Dir  string
	Env  []string
	Args []string
	Out  string
}

const planFile = "plan.json"

// brokerLog is the file in a plan's folder with what the broker logs.
const brokerLog = "broker.log"

func (p *plan) save(dir string) error {
	b, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, planFile), b, 0o644)
}

func loadPlan(dir string) (plan, error) {
	var p plan
	b, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(b, &p)
}
