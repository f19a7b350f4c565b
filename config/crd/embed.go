// Package crd holds the CustomResourceDefinitions, so that the plugin can install what it was built with.
package crd

import "embed"

// Files are the generated CustomResourceDefinitions, one a file.
//
//go:embed *.yaml
var Files embed.FS
