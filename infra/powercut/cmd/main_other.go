//go:build !linux

// Command powercut needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "powercut: missing here: Linux")
	os.Exit(2)
}
