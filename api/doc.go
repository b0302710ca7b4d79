// Package api is the HTTP edge: it translates requests into one append or one read, and every failure into one problem
// document; it decides nothing that the log, the catalog or the folds decide.
//
// Routes, fields and behaviour are in docs/reference/api.md, codes in docs/reference/errors.md. Everything it needs from
// outside is a port declared in ports.go.
package api
