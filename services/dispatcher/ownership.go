package dispatcher

// owned reports that this process is the one to work for the instance. It saves work; the fence is what makes two that both
// believe it safe.
func (a *actor) owned() bool { return a.p.d.leads() }
