// Package control keeps a process's copy of the control plane and writes changes to it.
//
// It promises that what it serves is the fold of CONTROL up to a known moment, and that it says so when that moment is too long
// ago.
package control
