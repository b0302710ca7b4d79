// Package compose holds what runs Pilot in containers: a Dockerfile, compose files and the configuration of an external
// NATS server. It has no code; its tests promise that the files say what the rest of the repository says.
package compose
