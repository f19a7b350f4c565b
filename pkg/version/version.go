// Package version says which build this is. The linker sets the variables, see the Makefile.
package version

import (
	"fmt"
	"runtime"
)

var (
	// Version is the released version with a leading v, or "dev".
	Version = "dev"
	// Commit is the commit that was built, or empty.
	Commit = ""
	// Date is when that commit was made, in RFC 3339, or empty. It is not the time of the build: builds are reproducible.
	Date = ""
)

// Info is everything that is known of this build.
type Info struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Date      string `json:"date,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Get returns what is known of this build.
func Get() Info {
	return Info{Version: Version, Commit: Commit, Date: Date, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// String is Version and Commit for logs and user agents, for example v0.1.0 (1a2b3c4).
func String() string {
	if Commit == "" {
		return Version
	}
	return fmt.Sprintf("%s (%.7s)", Version, Commit)
}
