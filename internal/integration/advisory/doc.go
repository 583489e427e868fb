// Package advisory tests the stores pgadvisory and mysqladvisory with real servers.
package advisory
