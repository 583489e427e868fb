// Package frameworks tests web sessions in the routers and frameworks that Go programs use. The
// page docs/frameworks.md shows or links the functions of this package.
package frameworks
