//go:build !linux

package main

func refuse() {}
