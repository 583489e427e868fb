// Package facetest holds the tests of package padlock that see it as its users do, from outside.
package facetest
