package api

// registerReads adds the routes of lists and figures.
func (a *API) registerReads() {
	if r := a.ports.Reads; r.Lists == nil || r.Deliveries == nil || r.Figures == nil {
		panic("api: a required port is missing")
	}
	a.registerList()
	a.registerDashboard()
	a.registerUsage()
}
