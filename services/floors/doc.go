// Package floors holds the tests that keep the house in order: who may import
// whom, what the language module may not do, and what no file may say.
//
// It reads source files and go.mod files, so it needs no build of what it
// checks and sees every file whatever its build tags. It has no code of its own.
package floors
