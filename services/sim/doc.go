// Package sim lets days of Pilot pass in virtual time: the real log, dispatchers, correlators, ingest and fan-out in one testing/synctest
// bubble, over the simulated gateway, while a seeded plan breaks whatever can break.
//
// It promises that a run ends with every invariant of docs/simulation.md checked, or with the story of what broke one. It has tests only.
//
//   - plan_test.go, faults_test.go: what a seed means: load and faults
//   - pipe_test.go, gateway_test.go: the network and the gateways, without sockets
//   - world_test.go, fleet_test.go, chaos_test.go: the parts, and who starts, stops and breaks them
//   - cancel_test.go, operator_test.go, settings_test.go: what customers and operators do meanwhile
//   - quiet_test.go: the end of the run, in which order is judged
//   - recording_test.go: what is kept of a run
//   - check*_test.go: the invariants, on a recording; broken*_test.go: recordings that break them
//   - turns_test.go, booked_test.go, coverage_test.go: what the invariants must let pass, made up
//   - project_test.go: the log into Postgres, compared with the fold
//   - day_test.go, seeds_test.go: one seed in its bubble, and many seeds
package sim
