// Command promlint reads metrics in Prometheus' text format and prints what Prometheus' own linter has against them,
// as `promtool check metrics` does. It ends with 1 where the text cannot be parsed, and with 3 where there is a complaint.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func main() {
	problems, err := promlint.New(os.Stdin).Lint()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot parse:", err)
		os.Exit(1)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem.Metric, problem.Text)
	}
	if len(problems) > 0 {
		os.Exit(3)
	}
}
