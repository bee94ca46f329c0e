package main

import (
	"encoding/json"
	"os"
)

// printJSON prints a value as one indented JSON document.
func printJSON(v any) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// printJSONLine prints a value as JSON on one line.
func printJSONLine(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }
