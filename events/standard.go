package events

import "slices"

// Standard is the registry of every event of Pilot.
var Standard = NewRegistry(slices.Concat(
	messageSpecs(), dispatchSpecs(), receiptSpecs(), instanceSpecs(), controlSpecs(), hookSpecs(), deadSpecs(),
)...)
