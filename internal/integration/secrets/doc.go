// Package secrets tests that nothing which prints or encodes a value of padlock shows a secret.
package secrets
