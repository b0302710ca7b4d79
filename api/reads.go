package api

// registerReads adds the routes of lists and figures.
func (a *API) registerReads() {
	if a.ports.Reads.Lists == nil {
		panic("api: a required port is missing")
	}
	a.registerList()
}
