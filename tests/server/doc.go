// Package server builds, starts and stops the sluice program for tests of the whole.
//
// A server listens on ports of its own and keeps its data in a folder that the caller names, so
// that a test can start another one over the same data. What the program prints to say where it
// listens is known here and nowhere else.
package server
