package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// turn is what came of one command, as ./measure prints it.
type turn struct {
	Command         []string
	Seconds, MiB    float64
	ExitCode        int
	Standard, Error string
}

func (t turn) String() string {
	return fmt.Sprintf("%s ended with %d after %.2f s:\n%.3000s%.3000s", strings.Join(t.Command, " "), t.ExitCode, t.Seconds, t.Standard, t.Error)
}

// contender is a command that is measured.
type contender struct {
	name    string
	command []string
	// check says whether a turn did what is meant to be measured. Without it, that is an exit code of 0.
	check func(turn) error
}

func (c contender) judge(t turn) error {
	switch {
	case c.check != nil:
		return c.check(t)
	case t.ExitCode != 0:
		return fmt.Errorf("exit code %d", t.ExitCode)
	}
	return nil
}

// measurer runs commands one after the other, and measures each.
type measurer func(b *testing.B, commands ...[]string) []turn

// here measures on this machine.
func here(b *testing.B, dir string) measurer {
	b.Helper()
	return measureBy(build(b, ".", "./measure", filepath.Join(dir, "measure")))
}

// measureBy measures by ./measure, or by what runs it elsewhere.
func measureBy(program ...string) measurer {
	return func(b *testing.B, commands ...[]string) []turn {
		b.Helper()
		in, err := json.Marshal(commands)
		if err != nil {
			b.Fatal(err)
		}
		var complaint bytes.Buffer
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &complaint
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("can't measure: %v: %s", err, complaint.String())
		}
		var turns []turn
		if err := json.Unmarshal(out, &turns); err != nil {
			b.Fatalf("can't measure: %v: %s", err, out)
		}
		if len(turns) != len(commands) {
			b.Fatalf("%d commands were measured, want %d", len(turns), len(commands))
		}
		return turns
	}
}

// compare runs two commands in turn, so that a machine that slows down slows down both, and reports both and their ratios.
// Before each turn it does what before says. It returns how long each took on average, in seconds.
func compare(b *testing.B, measure measurer, plugin, rival contender, before func()) [2]float64 {
	b.Helper()
	contenders := [2]contender{plugin, rival}
	var times, memory [2]float64
	for b.Loop() {
		before()
		for i, t := range measure(b, plugin.command, rival.command) {
			// A command that fails fast would win.
			if err := contenders[i].judge(t); err != nil {
				b.Fatalf("%s did not do what is measured: %v: %s", contenders[i].name, err, t)
			}
			times[i] += t.Seconds
			memory[i] += t.MiB
		}
	}
	return report(b, plugin.name, rival.name, times, memory)
}

func report(b *testing.B, name, rivalName string, times, memory [2]float64) [2]float64 {
	b.Helper()
	n := float64(b.N)
	b.ReportMetric(0, "ns/op") // the sum of both says nothing
	b.ReportMetric(1000*times[0]/n, name+"-ms")
	b.ReportMetric(1000*times[1]/n, rivalName+"-ms")
	b.ReportMetric(times[0]/times[1], "time-ratio")
	b.ReportMetric(memory[0]/n, name+"-MiB")
	b.ReportMetric(memory[1]/n, rivalName+"-MiB")
	b.ReportMetric(memory[0]/memory[1], "memory-ratio")
	return [2]float64{times[0] / n, times[1] / n}
}

func build(b *testing.B, dir, pkg, out string) string {
	b.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("can't build %s: %v\n%s", pkg, err, output)
	}
	return out
}

// run runs a command that is not measured.
func run(b *testing.B, command ...string) {
	b.Helper()
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", command, err, output)
	}
}
