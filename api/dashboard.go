package api

import (
	"context"
	"math"
	"net/http"
	"time"
	_ "time/tzdata" // zones by name, also where the machine has none

	"github.com/danielgtaylor/huma/v2"

	"pilotstatus.dev/events"
	"pilotstatus.dev/infra/timezone"
)

// Dashboard is the figures of a period.
type Dashboard struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	TotalSent           int                `json:"totalSent" doc:"Messages accepted in the period that are SENT, DELIVERED or READ."`
	TotalFailed         int                `json:"totalFailed" doc:"Messages accepted in the period that are FAILED."`
	SentPercentChange   float64            `json:"sentPercentChange" doc:"Of totalSent against the period before, in percent; 100 where that had none."`
	FailedPercentChange float64            `json:"failedPercentChange" doc:"The same of totalFailed."`
	FailureRate         float64            `json:"failureRate" doc:"totalFailed in percent of totalSent and totalFailed."`
	DailyMessages       []DayCount         `json:"dailyMessages" nullable:"false" doc:"Each day of the period, in order."`
	StatusDistribution  StatusDistribution `json:"statusDistribution"`
}

// DayCount is how many messages were accepted on a day.
type DayCount struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Date  string `json:"date" format:"date" doc:"In the time zone asked for."`
	Count int    `json:"count"`
}

// StatusDistribution is how many of the period's messages have a status now. CANCELED ones are in none.
type StatusDistribution struct {
	_ struct{} `json:"-" additionalProperties:"true"`

	Queued int `json:"queued"`
	Sent   int `json:"sent" doc:"SENT or DELIVERED."`
	Failed int `json:"failed"`
	Read   int `json:"read"`
}

type dashboardInput struct {
	Period   string `query:"period" enum:"7d,30d,90d" default:"30d" doc:"That many days, the last of them today."`
	TZ       string `query:"tz" doc:"Time zone of the days, by its IANA name; UTC when absent." example:"America/Sao_Paulo"`
	Timezone string `query:"timezone" doc:"The same as tz, which wins."`
}

type dashboardOutput struct{ Body Dashboard }

func (a *API) registerDashboard() {
	huma.Register(a.huma, huma.Operation{
		OperationID: "getDashboard", Method: http.MethodGet, Path: "/v1/analytics/dashboard", Summary: "Figures of a period",
		Description: "Of the project and environment of the key, over all its numbers. They may be some seconds old.",
		Tags:        []string{"messages"}, Security: keySecurity(events.ScopeRead), SkipValidateParams: true,
		Responses: a.problemResponses(events.CodeValidation, events.CodeUnauthorized, CodeTenantSuspended, events.CodeInternal,
			events.CodeUnavailable),
	}, a.getDashboard)
}

func (a *API) getDashboard(ctx context.Context, in *dashboardInput) (*dashboardOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.ReadTimeout)
	defer cancel()
	var f faults
	days := in.days(&f)
	zone := in.zone(&f)
	if len(f) > 0 {
		return nil, faultsError(f)
	}
	caller, _ := ctx.Value(callerKey{}).(Caller)
	bounds := dashboardBounds(a.ports.Now().In(zone), days)
	counts, err := a.ports.Reads.Figures.Counts(ctx, caller.Scope(), bounds)
	if err != nil {
		return nil, readError(err)
	}
	return &dashboardOutput{Body: dashboardOf(bounds, counts)}, nil
}

func (in *dashboardInput) days(f *faults) int {
	switch in.Period {
	case "7d":
		return 7
	case "", "30d":
		return 30
	case "90d":
		return 90
	}
	f.add("period", ruleUnknownValue)
	return 0
}

func (in *dashboardInput) zone(f *faults) *time.Location {
	field, name := "tz", in.TZ
	if name == "" {
		field, name = "timezone", in.Timezone
	}
	zone, ok := timezone.Load(name)
	if !ok {
		f.add(field, ruleUnknownValue)
		return time.UTC
	}
	return zone
}

// dashboardBounds gives the beginning of the period before, of each day of the period, and of the day after it, in the zone of now.
func dashboardBounds(now time.Time, days int) []time.Time {
	year, month, day := now.Date()
	midnight := func(n int) time.Time { return time.Date(year, month, day+n, 0, 0, 0, 0, now.Location()) }
	bounds := []time.Time{midnight(1 - 2*days)}
	for n := 1 - days; n <= 1; n++ {
		bounds = append(bounds, midnight(n))
	}
	return bounds
}

// dashboardOf sums up: the first stretch is the period before, each other one a day.
func dashboardOf(bounds []time.Time, counts []map[events.Status]int) Dashboard {
	var d Dashboard
	for i, c := range counts[1:] {
		total := 0
		for _, n := range c {
			total += n
		}
		d.DailyMessages = append(d.DailyMessages, DayCount{Date: bounds[i+1].Format(time.DateOnly), Count: total})
		d.TotalSent += left(c)
		d.TotalFailed += c[events.StatusFailed]
		d.StatusDistribution.Queued += c[events.StatusQueued]
		d.StatusDistribution.Sent += c[events.StatusSent] + c[events.StatusDelivered]
		d.StatusDistribution.Read += c[events.StatusRead]
	}
	d.StatusDistribution.Failed = d.TotalFailed
	d.SentPercentChange = percentChange(left(counts[0]), d.TotalSent)
	d.FailedPercentChange = percentChange(counts[0][events.StatusFailed], d.TotalFailed)
	if ended := d.TotalSent + d.TotalFailed; ended > 0 {
		d.FailureRate = tenths(100 * float64(d.TotalFailed) / float64(ended))
	}
	return d
}

func left(c map[events.Status]int) int {
	return c[events.StatusSent] + c[events.StatusDelivered] + c[events.StatusRead]
}

func percentChange(before, now int) float64 {
	switch {
	case before > 0:
		return tenths(100 * float64(now-before) / float64(before))
	case now > 0:
		return 100
	}
	return 0
}

func tenths(f float64) float64 { return math.Round(10*f) / 10 }
