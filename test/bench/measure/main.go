// Command measure runs commands in turn, and prints how long each took, and the most memory that it had, as JSON.
//
// It is a program of its own for two reasons. Benchmarks run it where entering that place is not what they measure. And the
// kernel counts as a command's memory what its parent had when it started it: a benchmark that holds 10,000 objects would
// find every command as big as itself, so that what starts commands must be smaller than they are.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// turn is what came of one command.
type turn struct {
	Command         []string
	Seconds, MiB    float64
	ExitCode        int
	Standard, Error string
}

func main() {
	n := flag.Int("n", 1, "how many times each command gets its turn")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), `usage: echo '[["COMMAND", "ARGUMENT"], ["COMMAND"]]' | measure [-n TIMES]`)
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := measure(os.Stdin, *n, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(in io.Reader, n int, out io.Writer) error {
	var commands [][]string
	if err := json.NewDecoder(in).Decode(&commands); err != nil {
		return fmt.Errorf("reading the commands, a list of lists of strings as JSON: %w", err)
	}
	turns := []turn{}
	for range n {
		for _, c := range commands {
			t, err := run(c)
			if err != nil {
				return err
			}
			turns = append(turns, t)
		}
	}
	return json.NewEncoder(out).Encode(turns)
}

func run(command []string) (turn, error) {
	if len(command) == 0 {
		return turn{}, errors.New("a command is empty")
	}
	var out, complaint bytes.Buffer
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return turn{}, fmt.Errorf("running %v: %w", command, err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return turn{}, errors.New("this system does not tell how much memory a process had")
	}
	return turn{
		Command: command, Seconds: took.Seconds(), MiB: float64(usage.Maxrss) / 1024,
		ExitCode: cmd.ProcessState.ExitCode(), Standard: out.String(), Error: complaint.String(),
	}, nil
}
