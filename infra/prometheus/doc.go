// Package prometheus holds alert rules for Prometheus. It has no code: its test keeps the rules to figures that exist.
package prometheus
