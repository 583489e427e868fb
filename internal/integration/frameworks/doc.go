// Package frameworks tests web sessions in the routers and frameworks that Go programs use. The
// functions of this package stand on the page docs/frameworks.md.
package frameworks
