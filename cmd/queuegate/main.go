// Command queuegate is a virtual waiting room in front of a web shop.
package main

import (
	"fmt"
	"os"
)

// version is set when the binary is linked.
var version = "dev"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Fprintln(os.Stdout, version)
		return
	}
	fmt.Fprintln(os.Stderr, "usage: queuegate version")
	os.Exit(2)
}
